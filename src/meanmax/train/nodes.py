r"""Nodes with their targets, the loss on them and the score."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


@dataclass(frozen=True, eq=False)
class Nodes:
    r"""Nodes with their targets.

    Args:
        index (Tensor): The nodes, int64.
        target (Tensor): Classes, int64, or 0/1 for each label, float; one row for each.
        total (int, optional): How many nodes the loss is the mean over, if these are some of them:
            the losses of all parts add up to it. (default: these)
    """

    index: Tensor
    target: Tensor
    total: int | None = None

    def loss(self, out: Tensor) -> Tensor:
        r"""Cross-entropy of classes, or binary cross-entropy of labels."""
        out = out[self.index]
        how = "mean" if self.total is None else "sum"
        if self.target.dim() == 1:
            loss, terms = cross_entropy(out, self.target, reduction=how), self.total
        else:
            target = self.target.to(out.dtype)
            loss = binary_cross_entropy_with_logits(out, target, reduction=how)
            terms = None if self.total is None else self.total * target.size(1)
        return loss if terms is None else loss / terms

    def score(self, out: Tensor) -> float:
        r"""The accuracy of classes, or the micro-F1 of labels, in :math:`[0, 1]`."""
        return score_of(*self.hits(out))

    @torch.no_grad()
    def hits(self, out: Tensor) -> tuple[int, int]:
        r"""Two counts whose ratio is the score, also when each is summed over parts: right nodes
        and all of them; for labels twice those found and true, and the found plus the true.
        """
        out = out[self.index]
        if self.target.dim() == 1:
            return int((out.argmax(dim=1) == self.target).sum()), len(self.target)
        return _label_hits(out > 0, self.target > 0.5)


def score_of(hits: float, out_of: float) -> float:
    r"""The ratio; 0 where there is nothing to find."""
    return hits / out_of if out_of else 0.0


def micro_f1(found: Tensor, true: Tensor) -> float:
    r"""The F1 score over all nodes and labels together; 0 where there is nothing to find.

    Args:
        found (Tensor): Bool, :obj:`[num_nodes, num_labels]`.
        true (Tensor): The same.
    """
    return score_of(*_label_hits(found, true))


def _label_hits(found: Tensor, true: Tensor) -> tuple[int, int]:
    return 2 * int((found & true).sum()), int(found.sum()) + int(true.sum())

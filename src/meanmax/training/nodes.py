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
    """

    index: Tensor
    target: Tensor

    def loss(self, out: Tensor) -> Tensor:
        r"""Cross-entropy of classes, or binary cross-entropy of labels."""
        out = out[self.index]
        if self.target.dim() == 1:
            return cross_entropy(out, self.target)
        return binary_cross_entropy_with_logits(out, self.target.to(out.dtype))

    @torch.no_grad()
    def score(self, out: Tensor) -> float:
        r"""The accuracy of classes, or the micro-F1 of labels, in :math:`[0, 1]`."""
        out = out[self.index]
        if self.target.dim() == 1:
            return float((out.argmax(dim=1) == self.target).double().mean())
        return micro_f1(out > 0, self.target > 0.5)


def micro_f1(found: Tensor, true: Tensor) -> float:
    r"""The F1 score over all nodes and labels together; 0 where there is nothing to find.

    Args:
        found (Tensor): Bool, :obj:`[num_nodes, num_labels]`.
        true (Tensor): The same.
    """
    both = int((found & true).sum())
    total = int(found.sum()) + int(true.sum())
    return 2 * both / total if total else 0.0

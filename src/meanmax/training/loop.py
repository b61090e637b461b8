r"""Training on one graph, or on a batch of graphs, with early stopping on validation nodes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from meanmax.graph import Graph
from meanmax.layers.linear import Features
from meanmax.models import NodeModel


class TrainingError(RuntimeError):
    r"""Training could not go on."""


@dataclass(frozen=True)
class Schedule:
    r"""How a model is trained.

    Args:
        epochs (int): The most epochs.
        lr (float): Adam's learning rate.
        weight_decay (float): Adam's weight decay; the aggregators' parameters have none.
        aggregator_lr (float): The learning rate of the aggregators' parameters.
        patience (int): Epochs without a lower validation loss after which training stops.
    """

    epochs: int = 400
    lr: float = 0.01
    weight_decay: float = 5e-4
    aggregator_lr: float = 0.01
    patience: int = 100


@dataclass
class History:
    r"""What happened in training, epoch by epoch.

    Args:
        train_loss (list): The loss on training nodes, without what the model adds to it.
        val_loss (list): The loss on validation nodes, if there are any.
        best_epoch (int): The epoch whose weights the model has now, from 0.
    """

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    best_epoch: int = -1


@dataclass(frozen=True)
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


def train(
    model: NodeModel,
    x: Features,
    graph: Graph,
    nodes: Nodes,
    val: Nodes | None,
    schedule: Schedule,
    on_epoch: Callable[[int, History], None] | None = None,
) -> History:
    r"""Trains a model in place and leaves it with the weights of its best epoch: that of the
    lowest validation loss, or the last one without validation nodes.

    Args:
        model (NodeModel): The model.
        x (Tensor or SparseFeatures): Features.
        graph (Graph): The graph.
        nodes (Nodes): Training nodes.
        val (Nodes, optional): Validation nodes.
        schedule (Schedule): How long and how fast.
        on_epoch (callable, optional): Called after each epoch.
    """
    optimizer = torch.optim.Adam(
        [
            {"params": model.other_parameters(), "weight_decay": schedule.weight_decay},
            {"params": model.aggregator_parameters(), "lr": schedule.aggregator_lr},
        ],
        lr=schedule.lr,
        fused=True,
    )
    history, best, lowest = History(), None, math.inf
    for epoch in range(schedule.epochs):
        history.train_loss.append(_step(model, x, graph, nodes, optimizer))
        if val is not None:
            history.val_loss.append(_evaluate(model, x, graph, val))
        if val is None or history.val_loss[-1] < lowest:
            history.best_epoch = epoch
        if val is not None and history.val_loss[-1] < lowest:
            lowest, best = history.val_loss[-1], copy.deepcopy(model.state_dict())
        if on_epoch is not None:
            on_epoch(epoch, history)
        if val is not None and epoch - history.best_epoch >= schedule.patience:
            break
    if best is not None:
        model.load_state_dict(best)
    model.eval()
    return history


def _step(
    model: NodeModel, x: Features, graph: Graph, nodes: Nodes, optimizer: torch.optim.Optimizer
) -> float:
    model.train()
    optimizer.zero_grad()
    loss = nodes.loss(model(x, graph))
    value = float(loss.detach())
    extra = model.extra_loss(graph)
    if not math.isfinite(value):
        raise TrainingError(
            f"the training loss became {value}: lower the learning rate, or scale the features"
        )
    (loss if extra is None else loss + extra).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return value


@torch.no_grad()
def _evaluate(model: NodeModel, x: Features, graph: Graph, nodes: Nodes) -> float:
    model.eval()
    return float(nodes.loss(model(x, graph)))

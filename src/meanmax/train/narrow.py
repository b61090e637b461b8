r"""Samples cut down to what the loss of their nodes depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from meanmax.nn.linear import Features
from meanmax.nn.models_init import (NodeModel, Trainable)
from meanmax.nn.receptive_field import Field
from meanmax.train.graph_samples import rows_of
from meanmax.train.problem import (Problem, Sample)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class NarrowSample(Sample):
    r"""A sample of which a model computes only the rows that its nodes need.

    Few nodes have labels, and with two layers only their neighbours' neighbours have a say: the
    output at these nodes and all gradients are those of the whole graph, for a fraction of the
    work. The graph stays the whole one, for what a model's extra loss makes of it.

    Args:
        field (Field): What the nodes depend on.
        field_x (Tensor or SparseFeatures): The features of the field's nodes.
    """

    field: Field
    field_x: Features

    def output(self, model: Trainable) -> Tensor:
        r"""The model's output for the nodes of the sample, ascending."""
        assert isinstance(model, NodeModel)  # the one it was narrowed for
        return model.on_field(self.field_x, self.field, structure=self.structure)


def narrowed(problem: Problem, model: Trainable) -> Problem:
    r"""The problem with samples cut down, where that spares work: one graph, and a model that knows
    how.

    Args:
        problem (Problem): The problem.
        model (Trainable): The model that it is for.
    """
    if not isinstance(model, NodeModel) or len(problem.samples) != 1:
        return problem
    val = None if problem.val is None else _narrowed(problem.val, model)
    return replace(problem, samples=[_narrowed(problem.samples[0], model)], val=val)


def _narrowed(sample: Sample, model: NodeModel) -> Sample:
    if type(sample) is not Sample or _has_gradient(sample.x):
        return sample
    index = sample.nodes.index
    if index.dtype != torch.int64 or index.device != sample.graph.device:
        return sample
    rows, place = torch.unique(index, return_inverse=True)
    if not len(rows) or int(rows[0]) < 0 or int(rows[-1]) >= sample.graph.num_nodes:
        return sample
    field = model.field(sample.graph, rows)
    if field is None:
        return sample
    whole = len(field.nodes) == sample.graph.num_nodes
    return NarrowSample(
        sample.x,
        sample.graph,
        replace(sample.nodes, index=place),
        sample.structure,
        field=field,
        field_x=sample.x if whole else rows_of(sample.x, field.nodes),
    )


def _has_gradient(x: Features) -> bool:
    r"""Whether features are learned: each step needs them anew."""
    return x.requires_grad if isinstance(x, Tensor) else x.value.requires_grad

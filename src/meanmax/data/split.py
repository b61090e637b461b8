r"""Which nodes train, which select, which test."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    r"""Disjoint sets of nodes, each sorted, int64.

    Args:
        train (Tensor): Nodes whose labels are learned from.
        val (Tensor): Nodes on which models are selected.
        test (Tensor): Nodes that results are reported on.
        name (str): The scheme and seed, as rows of results show it.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    name: str

    def __repr__(self) -> str:
        sizes = f"{self.train.numel()} train, {self.val.numel()} val, {self.test.numel()} test"
        return f"Split({self.name}: {sizes})"

r"""A data set and a split as a problem to train on and parts to be judged by."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from meanmax.data import (Dataset, Split)
from meanmax.graph import Graph
from meanmax.train import (Nodes, Problem, Sample)
from meanmax.train.arrange import arrange
from meanmax.train.problem import joined


@dataclass(frozen=True, eq=False)
class Prepared:
    r"""What a run needs of the data.

    Args:
        problem (Problem): Training and validation nodes; no other label is in it.
        parts (dict): A sample for each of :obj:`"train"`, :obj:`"val"` and :obj:`"test"`; for one
            graph also :obj:`"all"`, every node that has a label.
        inductive (bool): Whether validation nodes are in graphs that training does not see.
    """

    problem: Problem
    parts: dict[str, Sample]
    inductive: bool


def prepare(
    dataset: Dataset,
    split: Split,
    *,
    graph: Graph | None = None,
    scale: bool = False,
    batch_graphs: int = 2,
    structure_channels: int | None = None,
) -> Prepared:
    r"""Makes the samples of a run, arranged as a :class:`~meanmax.NodeClassifier` would.

    Args:
        dataset (Dataset): The data.
        split (Split): Which nodes train, validate and test.
        graph (Graph, optional): :obj:`dataset.graph()`, if it is at hand. (default: :obj:`None`)
        scale (bool, optional): Whether features are brought to a common scale: that of training
            nodes if they are in graphs of their own, else of all nodes. (default: :obj:`False`)
        batch_graphs (int, optional): Graphs per batch. (default: :obj:`2`)
        structure_channels (int, optional): Channels of CAT's embeddings of several graphs;
            :obj:`None` for other backbones. (default: :obj:`None`)
    """
    arranged = arrange(
        dataset.x,
        dataset.graph() if graph is None else graph,
        _nodes(dataset, split.train),
        _nodes(dataset, split.val) if split.val.numel() else None,
        scale=scale,
        batch_graphs=batch_graphs,
        structure_channels=structure_channels,
    )
    problem = arranged.problem
    parts = {"train": joined(problem.samples)}
    if problem.val is not None:
        parts["val"] = problem.val
    parts["test"] = arranged.sample(_nodes(dataset, split.test))
    if not arranged.inductive:
        every = dataset.labelled.nonzero().view(-1)
        parts["all"] = arranged.sample(_nodes(dataset, every))
    return Prepared(problem, parts, arranged.inductive)


def _nodes(dataset: Dataset, index: Tensor) -> Nodes:
    return Nodes(index, dataset.y[index])

r"""A data set and a split as a problem to train on and parts to be judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph
from meanmax.training import Nodes, Problem, Sample
from meanmax.training.graph_samples import graph_samples, rows_of
from meanmax.training.problem import joined
from meanmax.training.scaling import Scaling


@dataclass(frozen=True, eq=False)
class Prepared:
    r"""What a run needs of the data.

    Args:
        problem (Problem): Training and validation nodes; no other label is in it.
        parts (dict): A sample for each of :obj:`"train"`, :obj:`"val"` and :obj:`"test"`; for one
            graph also :obj:`"all"`, every node that has a label.
        inductive (bool): Whether parts are whole graphs that training does not see.
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
    r"""Makes the samples of a run.

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
    roles = {"train": split.train, "val": split.val, "test": split.test}
    graphs = {name: _graphs_of(dataset, nodes) for name, nodes in roles.items()}
    shared = dataset.graph() if graph is None else graph
    if dataset.num_graphs == 1 or _overlap(graphs):
        x = Scaling.of(dataset.x)(dataset.x) if scale else dataset.x
        roles["all"] = dataset.labelled.nonzero().view(-1)
        parts = {
            name: Sample(x, shared, Nodes(nodes, dataset.y[nodes])) for name, nodes in roles.items()
        }
        return Prepared(Problem([parts["train"]], parts["val"]), parts, inductive=False)
    x = dataset.x
    if scale:
        x = Scaling.of(rows_of(x, split.train))(x)
    samples = {
        name: graph_samples(x, shared, Nodes(nodes, dataset.y[nodes]), structure_channels)
        for name, nodes in roles.items()
    }
    parts = {name: joined(listed) for name, listed in samples.items()}
    return Prepared(Problem(samples["train"], parts["val"], batch_graphs), parts, inductive=True)


def _graphs_of(dataset: Dataset, nodes: Tensor) -> list[int]:
    return [int(number) for number in np.unique(dataset.graph_id[nodes].numpy())]


def _overlap(graphs: dict[str, list[int]]) -> bool:
    listed = [number for numbers in graphs.values() for number in numbers]
    return len(set(listed)) < len(listed)

r"""What a graph looks like in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from meanmax.data.dataset import Dataset


@dataclass(frozen=True)
class Statistics:
    r"""Counts and shares of one data set.

    Args:
        nodes (int): Nodes of all graphs.
        edges (int): Edges between two nodes; an undirected one counts once, and so do parallel
            ones. In a directed graph each direction counts.
        self_loops (int): Edges from a node to itself, not among :obj:`edges`.
        features (int): Features of a node.
        classes (int): Classes, or labels.
        graphs (int): Graphs.
        labelled (int): Nodes with a label.
        mean_degree (float): Mean number of neighbours (in a directed graph: of sources), the node
            itself left out.
        max_degree (int): The largest such number.
        homophily (float, optional): The share of edges between labelled nodes whose ends have the
            same class; :obj:`None` for several labels per node or if there is no such edge.
        components (int): Connected components, directions ignored.
        isolated (int): Nodes without any edge to or from another node.
        directed (bool): Whether some edge lacks its opposite.
    """

    nodes: int
    edges: int
    self_loops: int
    features: int
    classes: int
    graphs: int
    labelled: int
    mean_degree: float
    max_degree: int
    homophily: float | None
    components: int
    isolated: int
    directed: bool


def statistics(dataset: Dataset) -> Statistics:
    r"""Counts what :class:`Statistics` names.

    Args:
        dataset (Dataset): Any data set.
    """
    source, target = dataset.edge_index.numpy()
    between = source != target
    links = _links(source[between], target[between], dataset.num_nodes)
    directed = (links != links.T).nnz > 0
    degree = np.diff(links.T.tocsr().indptr)  # sources of each target
    touched = degree if not directed else degree + np.diff(links.indptr)
    return Statistics(
        nodes=dataset.num_nodes,
        edges=links.nnz if directed else links.nnz // 2,
        self_loops=np.unique(source[~between]).size,
        features=dataset.num_features,
        classes=dataset.num_classes,
        graphs=dataset.num_graphs,
        labelled=int(dataset.labelled.sum()),
        mean_degree=float(degree.mean()) if degree.size else 0.0,
        max_degree=int(degree.max(initial=0)),
        homophily=_homophily(dataset, links),
        components=int(connected_components(links, directed=False, return_labels=False))
        if dataset.num_nodes
        else 0,
        isolated=int((touched == 0).sum()),
        directed=directed,
    )


def _links(source: np.ndarray, target: np.ndarray, num_nodes: int) -> scipy.sparse.csr_array:
    """Which source points to which target, each pair once."""
    shape = (num_nodes, num_nodes)
    links = scipy.sparse.coo_array(
        (np.ones(source.size, np.int32), (source, target)), shape
    ).tocsr()
    links.sum_duplicates()
    links.data[:] = 1
    return links


def _homophily(dataset: Dataset, links: scipy.sparse.csr_array) -> float | None:
    if dataset.task == "multilabel":
        return None
    label = dataset.y.numpy()
    ends = links.tocoo()
    source, target = label[ends.row], label[ends.col]
    known = (source >= 0) & (target >= 0)
    return float((source == target)[known].mean()) if known.any() else None

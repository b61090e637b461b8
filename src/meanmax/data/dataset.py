r"""A data set (one graph or several, with features and labels), its fingerprint and statistics."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from meanmax.data.files import DataError
from meanmax.graph import Graph, SparseFeatures
from meanmax.graph.checks import Normalize, SelfLoops
from meanmax.names import Level

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    r"""Disjoint sets of nodes, or of graphs where those have the labels; each sorted, int64.

    Example:
        >>> from meanmax.data import load, make_split
        >>> split = make_split(load("digits"), seed=0)
        >>> len(split.train), len(split.val), len(split.test)
        (200, 300, 1297)
    """

    train: Tensor
    val: Tensor  # used for model selection
    test: Tensor
    name: str  # the scheme and seed, as stored with results

    def __repr__(self) -> str:
        sizes = f"{self.train.numel()} train, {self.val.numel()} val, {self.test.numel()} test"
        return f"Split({self.name}: {sizes})"


UNLABELLED = -1


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    r"""Features, labels and edges of one graph or of several, checked and in a canonical order.

    Example:
        >>> from meanmax.data import load
        >>> load("karate")
        Dataset(karate: 34 nodes, 156 stored edges, 34 features, 4 classes)

    Args:
        name (str): Its name in tables.
        x (Tensor or SparseFeatures): Features, :obj:`[num_nodes, num_features]`, float32.
        y (Tensor): One class per node, int64, :obj:`[num_nodes]`, with -1 for a node without
            label; or 0/1 for each of several labels, float32, :obj:`[num_nodes, num_labels]`,
            with NaN in the rows of nodes without labels; or a number to be predicted (a regression
            target), float32, :obj:`[num_nodes]`, with NaN for a node without one. At the level of
            graphs, the same for each graph, :obj:`[num_graphs]` or
            :obj:`[num_graphs, num_labels]`.
        edge_index (Tensor): Sources and targets, int64, :obj:`[2, num_edges]`; an undirected edge
            is stored both ways.
        edge_weight (Tensor, optional): Finite weights >= 0, float32, :obj:`[num_edges]`.
        class_names (tuple): The names of classes, or of labels; empty for a regression target.
        node_ids (ndarray, optional): The user's identifiers, as strings; :obj:`None` if nodes are
            only numbered.
        graph_ptr (Tensor): The first node of each graph, int64, :obj:`[num_graphs + 1]`.
            (default: one graph of all nodes)
        split (Split, optional): The split that came with the data, the first if there are several.
        notes (tuple): Sentences on source, licence and what was done to the data.
        scheme (str, optional): The default scheme of :func:`meanmax.data.splits.make_split` for
            this data set; :obj:`None` to choose one by its properties. (default: :obj:`None`)
        splits (tuple): All splits that came with the data, if they are several; the scheme
            :obj:`"given"` takes the one with the number of the seed.
        feature_names (tuple): The names of the columns of :obj:`x`, if they have any.
        encoding (dict): How columns of a table became features: the arguments :obj:`one_hot` and
            :obj:`impute` of :func:`meanmax.data.load` with which other data get the same columns.
        level (str): :obj:`"node"` or :obj:`"graph"`: whether nodes or whole graphs have the labels
            and are split. (default: :obj:`"node"`)
        graph_ids (ndarray, optional): The user's identifiers of graphs, as strings; :obj:`None` if
            graphs are only numbered.
    """

    name: str
    x: Tensor | SparseFeatures
    y: Tensor
    edge_index: Tensor
    edge_weight: Tensor | None = None
    class_names: tuple[str, ...] = ()
    node_ids: np.ndarray | None = None
    graph_ptr: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    split: Split | None = None
    notes: tuple[str, ...] = ()
    scheme: str | None = None
    splits: tuple[Split, ...] = ()
    feature_names: tuple[str, ...] = ()
    encoding: dict[str, Any] = field(default_factory=dict)
    level: Level = "node"
    graph_ids: np.ndarray | None = None

    def __post_init__(self) -> None:
        r"""Sets the pointer of a single graph and the first split, and checks that sizes agree."""
        if self.split is None and self.splits:
            object.__setattr__(self, "split", self.splits[0])
        if self.graph_ptr.numel() == 0:
            object.__setattr__(self, "graph_ptr", torch.tensor([0, self.num_nodes]))
        got = {
            "y": (self.y.size(0) if self.y.dim() else -1, self.num_items),
            "graph_ptr": (int(self.graph_ptr[-1]), self.num_nodes),
            "edge_index": (self.edge_index.size(0), 2),
        }
        if self.edge_weight is not None:
            got["edge_weight"] = (self.edge_weight.size(0), self.edge_index.size(1))
        if self.node_ids is not None:
            got["node_ids"] = (len(self.node_ids), self.num_nodes)
        if self.graph_ids is not None:
            got["graph_ids"] = (len(self.graph_ids), self.num_graphs)
        for argument, (size, wanted) in got.items():
            if size != wanted:
                raise DataError(
                    f"'{argument}' of data set '{self.name}' does not fit {self.num_nodes} nodes, "
                    f"{self.num_graphs} graphs and {self.edge_index.size(-1)} edges (got {size}, "
                    f"expected {wanted})"
                )

    @property
    def num_nodes(self) -> int:
        r"""The number of nodes of all graphs."""
        return self.x.size(0)

    @property
    def num_features(self) -> int:
        r"""The number of columns of :obj:`x`."""
        return self.x.size(1)

    @property
    def num_graphs(self) -> int:
        r"""The number of graphs."""
        return self.graph_ptr.numel() - 1

    @property
    def num_items(self) -> int:
        r"""The number of what can have a label: of nodes, or of graphs."""
        return self.num_graphs if self.level == "graph" else self.num_nodes

    @property
    def item_ids(self) -> np.ndarray | None:
        r"""The user's identifiers of what can have a label."""
        return self.graph_ids if self.level == "graph" else self.node_ids

    @property
    def num_classes(self) -> int:
        r"""The number of classes, or of labels; 1 for a regression target."""
        return 1 if self.task == "regression" else len(self.class_names)

    @property
    def task(self) -> Literal["multiclass", "multilabel", "regression"]:
        r"""Whether :obj:`y` holds one class, several labels or a number to be predicted."""
        if self.y.dim() > 1:
            return "multilabel"
        return "regression" if self.y.is_floating_point() else "multiclass"

    @cached_property
    def labelled(self) -> Tensor:
        r"""Which nodes, or graphs, have a label, bool."""
        if self.task == "multiclass":
            return self.y >= 0
        return ~self.y.isnan().reshape(self.num_items, -1).any(dim=1)

    @property
    def feature_facts(self) -> dict[str, Any]:
        r"""The names and the encoding of features, where they exist, as saved with models."""
        facts = {"feature_names": list(self.feature_names), "encoding": self.encoding}
        return {name: value for name, value in facts.items() if value}

    @property
    def graph_id(self) -> Tensor:
        r"""The graph of each node, int64, :obj:`[num_nodes]`."""
        return torch.arange(self.num_graphs).repeat_interleave(self.graph_ptr.diff())

    def graph(self, normalize: Normalize | None = None, self_loops: SelfLoops = False) -> Graph:
        r"""The graph, or the batch of all graphs, for layers. Options are those of
        :meth:`meanmax.Graph.from_edge_index`.
        """
        batch = self.graph_id if self.num_graphs > 1 else None
        return Graph.from_edge_index(
            self.edge_index, self.num_nodes, self.edge_weight, normalize, self_loops, batch=batch
        )

    def to_data(self, *, sparse: bool = False) -> Data:
        r"""The data set as PyG :obj:`Data` with :obj:`x`, :obj:`y`, :obj:`edge_index` and, where
        they exist, :obj:`edge_weight`, the masks of the split (a column for each of several) and
        the :obj:`batch` vector of several graphs.

        Example:
            >>> from meanmax.data import load
            >>> load("karate").to_data()
            Data(x=[34, 34], edge_index=[2, 156], y=[34])

        Args:
            sparse (bool, optional): If :obj:`True`, :obj:`x` is a :obj:`torch.sparse_csr` matrix,
                which few of PyG's layers take; otherwise a dense one. (default: :obj:`False`)
        """
        from torch_geometric.data import Data  # importing PyG takes seconds

        x = self.x.to_dense() if isinstance(self.x, SparseFeatures) and not sparse else self.x
        if isinstance(x, SparseFeatures):
            rows = x.to_scipy()
            pointer, column, value = map(torch.from_numpy, (rows.indptr, rows.indices, rows.data))
            x = torch.sparse_csr_tensor(pointer, column, value, rows.shape, check_invariants=True)
        elif sparse:
            x = x.to_sparse_csr()
        data = Data(x=x, edge_index=self.edge_index, y=self.y)
        if self.edge_weight is not None:
            data.edge_weight = self.edge_weight
        if self.split is not None:
            for part in ("train", "val", "test"):
                nothing = torch.zeros(self.num_items, dtype=torch.bool)
                items = [getattr(split, part) for split in self.splits or (self.split,)]
                masks = [nothing.index_fill(0, index, True) for index in items]
                data[f"{part}_mask"] = torch.stack(masks, dim=1) if self.splits else masks[0]
        if self.num_graphs > 1:
            data.batch = self.graph_id
        return data

    def to_data_list(self) -> list[Data]:
        r"""A PyG :obj:`Data` for each graph, with dense features. Where graphs have the labels,
        :obj:`y` is that of the graph, :obj:`[1]` or :obj:`[1, num_labels]`, and a split holds
        positions in the list; otherwise nodes have their labels and the masks of the split.

        Example:
            >>> from meanmax.data import load
            >>> graphs = load("digits-graphs").to_data_list()
            >>> len(graphs), graphs[0]
            (1797, Data(x=[35, 3], edge_index=[2, 182], y=[1]))
        """
        from torch_geometric.data import Data

        whole = self.to_data()
        owner = self.graph_id[self.edge_index[1]]
        order = owner.argsort(stable=True)
        ends_at = owner.bincount(minlength=self.num_graphs).cumsum(0).tolist()
        pointer = self.graph_ptr.tolist()
        graphs = []
        for number, (first, end) in enumerate(pairwise([0, *ends_at])):
            index = order[first:end]
            nodes = slice(*pointer[number : number + 2])
            labels = slice(number, number + 1) if self.level == "graph" else nodes
            ends = self.edge_index[:, index] - pointer[number]
            graph = Data(x=whole.x[nodes], edge_index=ends, y=self.y[labels])
            if self.edge_weight is not None:
                graph.edge_weight = self.edge_weight[index]
            for name in ("train_mask", "val_mask", "test_mask"):
                if self.level == "node" and name in whole:
                    graph[name] = whole[name][nodes]
            graphs.append(graph)
        return graphs

    def __repr__(self) -> str:
        graphs = f"{self.num_graphs} graphs, " if self.num_graphs > 1 else ""
        weights = "" if self.edge_weight is None else " with weights"
        split = "" if self.split is None else f", split '{self.split.name}'"
        split = f", {len(self.splits)} splits" if self.splits else split
        return (
            f"Dataset({self.name}: {graphs}{self.num_nodes} nodes, {self.edge_index.size(1)} "
            f"stored edges{weights}, {self.num_features} features, {target_text(self)}{split})"
        )


def target_text(dataset: Dataset) -> str:
    r"""What is to be predicted, in words: the number of classes or labels, or a number.

    Example:
        >>> from meanmax.data import load
        >>> target_text(load("karate"))
        '4 classes'
    """
    if dataset.task == "regression":
        return "a number to predict"
    return f"{dataset.num_classes} {'classes' if dataset.task == 'multiclass' else 'labels'}"


def fingerprint(dataset: Dataset) -> str:
    r"""The sha256 of everything a model sees: edges sorted by target and source, weights, features,
    labels and where each graph begins. Names, notes and splits do not count.

    Two data sets have the same fingerprint exactly if their prepared data are equal, node for node,
    however they are stored: weights that are all 1 count as no weights, and features are hashed as
    sparse if at most half of them are not zero, as dense otherwise.

    Example:
        >>> from meanmax.data import load
        >>> fingerprint(load("digits")) == fingerprint(load("digits"))
        True
    """
    source, target = dataset.edge_index.numpy()
    same, after = target[1:] == target[:-1], target[1:] > target[:-1]
    is_sorted = (after | (same & (source[1:] >= source[:-1]))).all()
    order = slice(None) if is_sorted else np.lexsort((source, target))
    parts = {"source": source[order], "target": target[order]}
    if dataset.edge_weight is not None and not bool((dataset.edge_weight == 1).all()):
        parts["weight"] = dataset.edge_weight.numpy()[order]
    y = dataset.y if dataset.y.dim() == 1 else dataset.y.nan_to_num(-1.0).to(torch.int8)
    if dataset.task == "regression":
        y = torch.where(y.isnan(), torch.nan, y) + 0.0  # one NaN of many, and -0 becomes 0
    parts |= _feature_parts(dataset.x) | {"y": y.numpy(), "graphs": dataset.graph_ptr.numpy()}
    digest = hashlib.sha256(b"meanmax data 1\n")
    for name, array in parts.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.data if little.size else b"")
    return digest.hexdigest()


def _feature_parts(x: Tensor | SparseFeatures) -> dict[str, np.ndarray]:
    value = x.value if isinstance(x, SparseFeatures) else x
    if 2 * int(value.count_nonzero()) > x.size(0) * x.size(1):
        dense = x.to_dense() if isinstance(x, SparseFeatures) else x
        return {"x": dense.numpy() + np.float32(0)}  # -0 becomes 0
    sparse = x if isinstance(x, SparseFeatures) else SparseFeatures.from_dense(x, x.dtype)
    rows = sparse.to_scipy().copy()
    rows.eliminate_zeros()
    rows.sort_indices()
    return {
        "columns": rows.indices.astype(np.int64),
        "pointer": rows.indptr.astype(np.int64),
        "values": rows.data,
        "shape": np.array(rows.shape),
    }


@dataclass(frozen=True)
class Statistics:
    r"""Counts of a data set.

    Example:
        >>> from meanmax.data import load
        >>> statistics(load("digits")).classes
        10
    """

    nodes: int  # of all graphs
    edges: int  # between two nodes, parallel ones once; each direction if the graph is directed
    self_loops: int  # edges from a node to itself, not among the edges
    features: int
    classes: int  # or labels; 1 for a regression target
    graphs: int
    labelled: int  # nodes, or graphs, with a label
    mean_degree: float  # neighbours (in a directed graph: sources), the node itself left out
    max_degree: int
    # The share of edges between labelled nodes whose ends have the same class; None for several
    # labels per node, for a regression target, for labels of graphs, or if there is no such edge.
    homophily: float | None
    components: int  # connected, directions ignored
    isolated: int  # nodes without any edge to or from another node
    directed: bool  # whether some edge lacks its opposite
    density: float  # the share of features that are not 0


def statistics(dataset: Dataset) -> Statistics:
    r"""Computes the :class:`Statistics` of a data set.

    Example:
        >>> from meanmax.data import load
        >>> found = statistics(load("digits"))
        >>> found.nodes, found.edges
        (1797, 12535)
    """
    source, target = dataset.edge_index.numpy()
    between = source != target
    ends, size = (source[between], target[between]), dataset.num_nodes
    links = scipy.sparse.coo_array((np.ones(ends[0].size, np.int32), ends), (size, size)).tocsr()
    links.sum_duplicates()
    links.data[:] = 1
    directed = (links != links.T).nnz > 0
    components = connected_components(links, directed=False, return_labels=False) if size else 0
    degree = np.diff(links.T.tocsr().indptr)  # sources of each target
    touched = degree if not directed else degree + np.diff(links.indptr)
    return Statistics(
        nodes=size,
        edges=links.nnz if directed else links.nnz // 2,
        self_loops=np.unique(source[~between]).size,
        features=dataset.num_features,
        classes=dataset.num_classes,
        graphs=dataset.num_graphs,
        labelled=int(dataset.labelled.sum()),
        mean_degree=float(degree.mean()) if degree.size else 0.0,
        max_degree=int(degree.max(initial=0)),
        homophily=_homophily(dataset, links),
        components=int(components),
        isolated=int((touched == 0).sum()),
        directed=directed,
        density=_density(dataset.x),
    )


def _density(x: Tensor | SparseFeatures) -> float:
    value = x.value if isinstance(x, SparseFeatures) else x
    return int(value.count_nonzero()) / max(1, x.size(0) * x.size(1))


def _homophily(dataset: Dataset, links: scipy.sparse.csr_array) -> float | None:
    if dataset.task != "multiclass" or dataset.level == "graph":
        return None
    label = dataset.y.numpy()
    ends = links.tocoo()
    source, target = label[ends.row], label[ends.col]
    known = (source >= 0) & (target >= 0)
    return float((source == target)[known].mean()) if known.any() else None


def class_sizes(dataset: Dataset) -> dict[str, int]:
    r"""The number of labelled nodes, or graphs, of each class, or with each label; empty for a
    regression target.

    Example:
        >>> from meanmax.data import load
        >>> list(class_sizes(load("karate")).values())
        [13, 12, 4, 5]
    """
    y, size = dataset.y[dataset.labelled], dataset.num_classes
    if dataset.task == "regression":
        return {}
    counts = torch.bincount(y, minlength=size) if dataset.task == "multiclass" else y.sum(dim=0)
    return {name: int(found) for name, found in zip(dataset.class_names, counts, strict=True)}

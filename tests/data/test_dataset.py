import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from meanmax.data import Dataset, Split, statistics
from meanmax.data.dataset import class_sizes
from meanmax.data.files import DataError
from meanmax.graph import SparseFeatures

FIELDS = {
    "x": torch.zeros(3, 2),
    "y": torch.tensor([0, 1, -1]),
    "edge_index": torch.tensor([[0, 1], [1, 0]]),
    "class_names": ("a", "b"),
}


def test_one_graph_of_all_nodes():
    dataset = Dataset("d", **FIELDS)
    assert dataset.graph_ptr.tolist() == [0, 3]
    assert (dataset.num_graphs, dataset.num_nodes, dataset.num_features) == (1, 3, 2)
    assert (dataset.num_classes, dataset.task) == (2, "multiclass")
    assert dataset.labelled.tolist() == [True, True, False]
    assert dataset.graph(self_loops=True).num_edges == 5


def test_several_graphs_are_a_batch():
    dataset = Dataset("d", **FIELDS, graph_ptr=torch.tensor([0, 2, 3]))
    assert dataset.graph_id.tolist() == [0, 0, 1]
    assert dataset.graph().num_graphs == 2


def test_a_list_of_graphs_for_pyg():
    dataset = Dataset(
        "d",
        torch.arange(8.0).reshape(4, 2),
        torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
        torch.tensor([[3, 0, 1, 2], [3, 1, 0, 3]]),  # not sorted by graph
        torch.tensor([0.5, 1.0, 2.0, 3.0]),
        class_names=("a", "b"),
        graph_ptr=torch.tensor([0, 2, 4]),
        level="graph",
    )
    first, second = dataset.to_data_list()
    assert first.x.tolist() == [[0, 1], [2, 3]] and first.y.tolist() == [[1, 0]]
    assert first.edge_index.tolist() == [[0, 1], [1, 0]] and first.edge_weight.tolist() == [1, 2]
    assert second.edge_index.tolist() == [[1, 0], [1, 1]] and second.y.tolist() == [[0, 1]]
    assert second.edge_weight.tolist() == [0.5, 3]


def test_a_list_of_graphs_with_labels_of_nodes():
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]), "mine")
    fields = FIELDS | {"graph_ptr": torch.tensor([0, 2, 2, 3]), "split": split}
    first, empty, last = Dataset("d", **fields).to_data_list()
    assert (first.y.tolist(), first.train_mask.tolist()) == ([0, 1], [True, False])
    assert (empty.num_nodes, empty.edge_index.shape) == (0, (2, 0))
    assert (last.y.tolist(), last.test_mask.tolist()) == ([-1], [True])


def test_several_labels():
    nan = float("nan")
    dataset = Dataset("d", **FIELDS | {"y": torch.tensor([[0.0, 1.0], [nan, nan], [1.0, 1.0]])})
    assert dataset.task == "multilabel"
    assert dataset.labelled.tolist() == [True, False, True]


def test_it_shows_itself_shortly():
    assert repr(Dataset("d", **FIELDS)) == (
        "Dataset(d: 3 nodes, 2 stored edges, 2 features, 2 classes)"
    )
    several = Dataset(
        "d",
        **FIELDS | {"y": torch.ones(3, 2)},
        edge_weight=torch.ones(2),
        graph_ptr=torch.tensor([0, 2, 3]),
        split=Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]), "mine"),
    )
    assert repr(several) == (
        "Dataset(d: 2 graphs, 3 nodes, 2 stored edges with weights, 2 features, 2 labels, "
        "split 'mine')"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"y": torch.zeros(2)},
        {"edge_index": torch.zeros(3, 2, dtype=torch.long)},
        {"edge_weight": torch.ones(3)},
        {"node_ids": np.array(["a", "b"])},
        {"graph_ptr": torch.tensor([0, 2])},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_sizes_that_disagree_are_refused(fields):
    with pytest.raises(DataError, match=f"'{next(iter(fields))}' of data set 'd' does not fit"):
        Dataset("d", **FIELDS | fields)


def cora(**fields):
    x = SparseFeatures.from_dense([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]), "mine")
    return Dataset("d", **FIELDS | {"x": x, "split": split} | fields)


def test_pyg_layers_take_the_data():
    data = cora(edge_weight=torch.tensor([0.5, 2.0])).to_data()
    torch.manual_seed(0)
    layer = GCNConv(2, 4)
    out = layer(data.x, data.edge_index, data.edge_weight)
    # the same by hand: D^-1/2 (A + I) D^-1/2 X W
    adjacency = torch.tensor([[1.0, 2.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    scale = adjacency.sum(dim=1).rsqrt()
    want = scale[:, None] * adjacency * scale @ torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    torch.testing.assert_close(out, want @ layer.lin.weight.T)


def test_data_carries_labels_and_split():
    data = cora().to_data()
    assert data.y.tolist() == [0, 1, -1]
    masks = [data[f"{part}_mask"].tolist() for part in ("train", "val", "test")]
    assert masks == [[True, False, False], [False, True, False], [False, False, True]]
    assert "edge_weight" not in data and "batch" not in data
    assert "train_mask" not in cora(split=None).to_data()


def test_data_of_several_graphs_has_a_batch():
    assert cora(graph_ptr=torch.tensor([0, 2, 3])).to_data().batch.tolist() == [0, 0, 1]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_sparse_features_stay_sparse_on_request():
    x = cora().to_data(sparse=True).x
    assert x.layout == torch.sparse_csr
    assert x.to_dense().tolist() == [[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]


def test_a_regression_target():
    nan = float("nan")
    fields = {**FIELDS, "y": torch.tensor([0.5, nan, -2.0]), "class_names": ()}
    dataset = Dataset("d", **fields)
    assert (dataset.task, dataset.num_classes) == ("regression", 1)
    assert dataset.labelled.tolist() == [True, False, True]
    assert repr(dataset).endswith("2 features, a number to predict)")
    assert class_sizes(dataset) == {}
    assert statistics(dataset).homophily is None


def test_class_sizes():
    assert class_sizes(Dataset("d", **FIELDS)) == {"a": 1, "b": 1}
    nan = float("nan")
    several = FIELDS | {"y": torch.tensor([[0.0, 1.0], [nan, nan], [1.0, 1.0]])}
    assert class_sizes(Dataset("d", **several)) == {"a": 1, "b": 2}


def test_masks_of_several_splits_are_columns():
    nodes = [torch.tensor([number]) for number in range(3)]
    splits = (Split(*nodes, "0"), Split(*nodes[1:], nodes[0], "1"))
    data = Dataset("d", **FIELDS, splits=splits).to_data()
    assert data.train_mask.tolist() == [[True, False], [False, True], [False, False]]
    assert data.test_mask.tolist() == [[False, True], [False, False], [True, False]]

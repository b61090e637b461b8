"""Lists of PyG's Data, in memory and in files of torch.save."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from meanmax.data import fingerprint, load
from meanmax.data.readers import OwnDataError, check, read_object, read_own


def path(nodes, y, **more):
    """A path of so many nodes with one label."""
    ends = torch.arange(nodes)
    x = torch.stack([ends.float(), torch.ones(nodes)], dim=1)
    y = torch.tensor(y) if isinstance(y, list) else y
    fields = {"x": x, "edge_index": torch.stack([ends[:-1], ends[1:]]), "y": y}
    return Data(**{name: value for name, value in (fields | more).items() if value is not None})


def saved(tmp_path, graphs):
    torch.save(graphs, tmp_path / "list.pt")
    return tmp_path / "list.pt"


def test_graphs_follow_each_other():
    dataset = read_object([path(2, [3]), path(3, [1]), path(1, [3])])
    assert (dataset.level, dataset.graph_ptr.tolist()) == ("graph", [0, 2, 5, 6])
    assert dataset.y.tolist() == [1, 0, 1] and dataset.class_names == ("1", "3")
    assert dataset.edge_index.tolist() == [[1, 0, 3, 2, 4, 3], [0, 1, 2, 3, 3, 4]]
    assert dataset.x[:, 0].tolist() == [0, 1, 0, 1, 2, 0]


@pytest.mark.parametrize("form", [Data, dict])
def test_a_file_is_what_was_saved(form, tmp_path):
    weight = torch.tensor([0.5])
    graphs = [path(2, [0], edge_weight=weight), path(2, [1], edge_weight=weight * 2)]
    dataset = read_own(saved(tmp_path, [form(**graph.to_dict()) for graph in graphs]))
    assert fingerprint(dataset) == fingerprint(load(graphs))
    assert dataset.name == "list" and dataset.edge_weight.tolist() == [0.5, 0.5, 1, 1]


@pytest.mark.parametrize(
    ("labels", "task", "want"),
    [
        ([2, 0, 2], "multiclass", [1, 0, 1]),
        ([[2], [0], [2]], "multiclass", [1, 0, 1]),
        ([[2], None, [0]], "multiclass", [1, -1, 0]),
        ([1.0, 0.0, 1.0], "multiclass", [1, 0, 1]),
        ([0.5, 2.0, None], "regression", [0.5, 2, np.nan]),
        ([[0.5], [2.0], [1.0]], "regression", [0.5, 2, 1]),
        ([[[1, 0]], [[1, 1]], None], "multilabel", [[1, 0], [1, 1], [np.nan] * 2]),
        ([None, None, None], "multiclass", [-1, -1, -1]),
    ],
)
def test_labels(labels, task, want):
    graphs = [path(n, None) for n in (2, 3, 2)]
    for graph, label in zip(graphs, labels, strict=True):
        if label is not None:
            graph.y = torch.tensor(label)
    dataset = read_object(graphs)
    assert (dataset.level, dataset.task) == ("graph", task)
    np.testing.assert_array_equal(dataset.y, np.float32(want))


def test_a_number_of_python_is_a_label():
    assert read_object([path(2, 1), path(3, 0)]).y.tolist() == [1, 0]


def test_labels_of_nodes():
    dataset = read_object([path(2, [0, 1]), path(3, [1, 1, 0])])
    assert (dataset.level, dataset.y.tolist()) == ("node", [0, 1, 1, 1, 0])
    assert dataset.num_graphs == 2


def test_without_features_nodes_have_their_degrees():
    graphs = [path(n, [n % 2], x=None, num_nodes=n) for n in (3, 2)]
    dataset = read_object(graphs)
    assert dataset.x.argmax(1).tolist() == [1, 2, 1, 1, 1]
    assert any("their degrees are used" in note for note in dataset.notes)


def test_without_edges_graphs_are_sets(tmp_path):
    graphs = [path(n, [n % 2], edge_index=None) for n in (3, 2)]
    for dataset in (load(graphs), load(saved(tmp_path, graphs))):
        assert dataset.edge_index.shape == (2, 0)
        assert dataset.graph_ptr.tolist() == [0, 3, 5] and dataset.y.tolist() == [1, 0]
        assert sum("no edges: its graphs are sets" in note for note in dataset.notes) == 1


def test_gaps_are_filled_over_all_graphs():
    graphs = [path(2, [0]), path(2, [1])]
    graphs[1].x[:, 0] = torch.tensor([5.0, torch.nan])
    dataset = read_object(graphs, impute="mean")
    assert dataset.x[:, 0].tolist() == [0, 1, 5, 2]
    assert dataset.encoding == {"impute": {"0": 2.0, "1": 1.0}}


def test_unused_attributes_are_noted_once(tmp_path):
    graphs = [path(2, [label], edge_attr=torch.ones(1, 3)) for label in (0, 1, 1)]
    notes = [problem.message for problem in check(saved(tmp_path, graphs))]
    assert notes.count("edge_attr not used") == 1


def test_several_labels_of_a_graph_are_a_row():
    with pytest.raises(OwnDataError, match=r"graph 0 has 3 rows; .*such as y\[None, :\]"):
        load([path(2, [0, 1, 1]), path(2, [1, 1, 0])])


def test_notes_advise_what_a_list_can_have(tmp_path):
    graphs = [path(2, [number % 2]) for number in range(12)]
    (problem,) = check(saved(tmp_path, graphs))
    assert problem.message.startswith("2 classes have 9 or fewer")
    assert problem.advice.endswith("choose another with --split, or supply your own")


def bad(**changes):
    return [path(2, [0]), path(3, changes.pop("y", [1]), **changes)]


WRONG = {
    "widths": (bad(x=torch.ones(3, 5)), "[1]", "'x' has 5 columns, and that of the graphs before"),
    "no features": (bad(x=None), "[1]", "has no 'x', and the graphs before it have"),
    "features of some": (
        [path(2, [0], x=None, num_nodes=2), path(2, [1])],
        "[1]",
        "has 'x', and the graphs before it have none",
    ),
    "weights of some": (
        bad(edge_weight=torch.ones(2)),
        "[1]",
        "has 'edge_weight', and the graphs before it have none",
    ),
    "NaN": (bad(x=torch.full((3, 2), torch.nan)), "[1]", "'x' is not finite in 32 bits at [0, 0]"),
    "edges": (bad(edge_index=None), "[1]", "has no 'edge_index', and the graphs before it have"),
    "edges in another form": (
        [path(2, [0], edge_index=None, adj_t=torch.eye(2))],
        "[0]",
        "holds no tensor 'edge_index', but adj_t",
    ),
    "three ends": (bad(edge_index=torch.zeros(3, 1).long()), "[1]", "must be [2, num_edges]"),
    "an end outside": (
        bad(edge_index=torch.tensor([[0], [3]])),
        "[1]",
        "edge 0 joins [0, 3], and nodes are 0 to 2",
    ),
    "a negative weight": (
        [path(2, [0], edge_weight=-torch.ones(1)), path(2, [1])],
        "[0]",
        "'edge_weight' is negative at edge 0",
    ),
    "no nodes": (
        bad(x=torch.ones(0, 2), edge_index=torch.zeros(2, 0).long()),
        "[1]",
        "has no nodes",
    ),
    "no count": ([path(2, [0], x=None)], "[0]", "holds neither 'x' nor the number 'num_nodes'"),
    "labels of parts": (bad(y=[0, 1]), "", "'y' of graph 1 has 2 rows"),
    "text": (bad(y="warm"), "[1]", "'y' is text (got 'warm')"),
    "label widths": (
        [path(2, [[0, 1]]), path(3, [[1, 0, 1]])],
        "[1]",
        "'y' is [1, 3], and that of a graph before it [1, 2]",
    ),
    "one class": ([path(2, [1]), path(3, [1])], "", "all labels are the one class '1'"),
    "no graphs": ([], "", "holds no graphs"),
    "a number": ([3], "[0]", "holds neither 'x' nor the number 'num_nodes'"),
    "a sparse tensor": (
        bad(x=torch.eye(3).to_sparse()),
        "[1]",
        "'x' is not a plain, dense tensor",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_shown_with_its_graph(case, tmp_path):
    graphs, place, message = WRONG[case]
    problems = [each for each in check(saved(tmp_path, graphs)) if each.severity == "error"]
    assert message in problems[0].message
    assert problems[0].file == f"list.pt{place}"


def test_classes_other_than_pygs_are_not_loaded(tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return open, (str(ran), "w")

    with pytest.raises(OwnDataError, match="nothing was run"):
        read_own(saved(tmp_path, [path(2, [0]), Evil()]))
    assert not ran.exists()


def test_views_of_one_storage_may_not_fill_the_memory(tmp_path, monkeypatch):
    shared = torch.ones(10_000, 2)
    graphs = [path(10_000, [label % 2], x=shared) for label in range(20)]
    file = saved(tmp_path, graphs)
    monkeypatch.setattr("meanmax.data.readers.problems.memory", lambda: 12_000_000)
    assert file.stat().st_size < 5_000_000
    with pytest.raises(OwnDataError, match="more than half of this machine's memory"):
        read_own(file)

import numpy as np
import pytest
import torch

from meanmax.data import DataError, load
from meanmax.data.readers import OwnDataError, check, read_own

from . import graphs


@pytest.mark.parametrize("format", graphs.with_marks([*graphs.NAMED, *graphs.NUMBERED]))
def test_every_format_gives_the_same_graph(format, tmp_path):
    dataset = read_own({**graphs.NAMED, **graphs.NUMBERED}[format](tmp_path))
    assert dataset.name == "mine"
    assert dataset.edge_index.tolist() == graphs.EDGE_INDEX
    assert dataset.edge_weight.tolist() == graphs.WEIGHT
    assert dataset.x.tolist() == torch.tensor(graphs.FEATURES).tolist()
    assert (dataset.x.dtype, dataset.y.dtype) == (torch.float32, torch.int64)
    assert dataset.y.tolist() == graphs.Y
    assert dataset.graph_ptr.tolist() == [0, 4]
    split = dataset.split
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [1], [3]]
    if format in graphs.NAMED:
        assert dataset.node_ids.tolist() == graphs.IDS
        assert dataset.class_names == ("cat", "dog")
    else:
        assert dataset.node_ids is None
        assert dataset.class_names == ("0", "1")


@pytest.mark.parametrize("format", graphs.with_marks(graphs.NAMED))
def test_directed_keeps_the_direction(format, tmp_path):
    dataset = read_own(graphs.NAMED[format](tmp_path), directed=True)
    ends = {tuple(pair) for pair in dataset.edge_index.T.tolist()}
    # networkx and the upper triangle of the matrix list the first edge from the first node.
    assert ends in ({(1, 0), (0, 2)}, {(0, 1), (0, 2)})
    if "csv" in format or format in ("tsv", "parquet"):
        assert ends == {(1, 0), (0, 2)}


@pytest.mark.extra
def test_load_takes_a_path(tmp_path):
    dataset = load(graphs.csv_folder(tmp_path))
    assert dataset.node_ids.tolist() == graphs.IDS
    assert load(str(tmp_path / "mine" / "edges.csv")).num_nodes == 4


@pytest.mark.extra
def test_links_of_older_networkx(tmp_path):
    dataset = read_own(graphs.node_link_file(tmp_path, edges="links"))
    assert dataset.edge_index.tolist() == graphs.EDGE_INDEX


def test_several_graphs(tmp_path):
    dataset = read_own(graphs.several_file(tmp_path))
    assert dataset.graph_ptr.tolist() == [0, 3, 5]
    assert dataset.task == "multilabel"
    assert dataset.y.tolist() == [[0, 1], [1, 1], [0, 0], [1, 0], [1, 0]]
    assert dataset.edge_index.tolist() == [[1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4]]
    assert dataset.split.train.tolist() == [0, 1, 2]
    assert dataset.graph().num_graphs == 2


def test_sparse_features_stay_sparse(tmp_path):
    sparse = {
        "attr_data": np.float32([2, 3]),
        "attr_indices": np.int32([1, 0]),
        "attr_indptr": np.int32([0, 1, 1, 2, 2]),
        "attr_shape": np.array([4, 3]),
    }
    dataset = read_own(graphs.benchmark_file(tmp_path, attr_matrix=None, **sparse))
    assert dataset.x.to_dense().tolist() == [[0, 2, 0], [0, 0, 0], [3, 0, 0], [0, 0, 0]]


@pytest.mark.extra
def test_progress_ends_at_the_total(tmp_path):
    calls = []
    path = graphs.csv_folder(tmp_path)
    read_own(path, progress=lambda *call: calls.append(call))
    size = (path / "edges.csv").stat().st_size
    assert ("reading edges.csv", size, size) in calls
    assert ("parsing edges.csv", size, size) in calls


@pytest.mark.parametrize("name", ["absent", "absent.npz", "graph.xlsx"])
def test_paths_that_lead_nowhere(name, tmp_path):
    (tmp_path / "graph.xlsx").write_bytes(b"PK")
    with pytest.raises(OwnDataError, match="no such folder|cannot be read; known are folders"):
        read_own(tmp_path / name)


@pytest.mark.extra
def test_error_shows_the_first_problems(tmp_path):
    edges = "source,target\n" + "".join(f"nobody{n},ann\n" for n in range(9))
    path = graphs.csv_folder(tmp_path, edges=edges)
    with pytest.raises(DataError, match=r"edges\.csv:2: source 'nobody0'.*\n.*:3:") as caught:
        read_own(path)
    assert "and 4 more" in str(caught.value)
    assert len(caught.value.problems) == 9


@pytest.mark.extra
def test_check_of_a_good_graph_has_notes_only(tmp_path):
    problems = check(graphs.csv_folder(tmp_path))
    assert [problem.severity for problem in problems] == ["note"]
    assert "1 node without edges ('dan')" in problems[0].message


@pytest.mark.extra
def test_check_may_keep_directions(tmp_path):
    path = graphs.csv_folder(tmp_path, edges="source,target,weight\nann,bob,1\nbob,ann,2\n")
    said = [any("another weight" in problem.message for problem in check(path, directed=directed))
            for directed in (False, True)]  # fmt: skip
    assert said == [True, False]

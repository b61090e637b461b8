"""Collections in the text format of the TU datasets."""

import io
import zipfile

import numpy as np
import pytest
import torch
from torch_geometric.datasets import TUDataset

from meanmax.data import fingerprint
from meanmax.data.files import DataError
from meanmax.data.readers import OwnDataError, check, read_own
from meanmax.unpacking import max_unpacked

from .graphs import tu_folder, tu_zip

ONE_HOT = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]


def errors(path):
    return [
        (problem.file, problem.line, problem.message)
        for problem in check(path)
        if problem.severity == "error"
    ]


def test_every_part_is_read(tmp_path):
    dataset = read_own(tu_folder(tmp_path / "DS"))
    assert (dataset.name, dataset.level, dataset.num_graphs) == ("DS", "graph", 3)
    assert dataset.graph_ptr.tolist() == [0, 3, 5, 6]
    assert dataset.y.tolist() == [1, 0, 1] and dataset.class_names == ("-1", "1")
    assert dataset.edge_index.tolist() == [[1, 0, 2, 1, 4, 3], [0, 1, 1, 2, 3, 4]]
    assert dataset.x[:, :2].tolist() == [[0.5, 1], [1.5, 2], [2, 3], [3, 4], [-4, 5], [5, 6]]
    assert dataset.x[:, 2:].tolist() == ONE_HOT
    assert dataset.feature_names == (
        "attribute 1", "attribute 2", "label=3", "label=7", "label=9",
    )  # fmt: skip


def test_folder_zip_and_the_folder_of_pyg_are_the_same(tmp_path):
    plain = fingerprint(read_own(tu_folder(tmp_path / "a")))
    assert fingerprint(read_own(tu_folder(tmp_path / "DS" / "raw").parent)) == plain
    assert fingerprint(read_own(tu_zip(tmp_path / "any.zip"))) == plain
    assert fingerprint(read_own(tu_zip(tmp_path / "flat.zip", prefix=""))) == plain


def test_pyg_reads_the_same(tmp_path, monkeypatch):
    tu_folder(tmp_path / "DS" / "raw")
    theirs = TUDataset(str(tmp_path), "DS", use_node_attr=True)
    ours = read_own(tmp_path / "DS")
    # PyG's one-hot has a column for every number up to the largest, and ours for those that occur.
    kept = [0, 1, 2, 6, 8]
    for number, graph in enumerate(theirs):
        nodes = slice(*ours.graph_ptr[number : number + 2].tolist())
        assert torch.equal(ours.x[nodes], graph.x[:, kept])
        assert ours.y[number] == graph.y


def test_nodes_in_any_order_are_sorted_by_graph(tmp_path):
    folder = tu_folder(
        tmp_path / "DS",
        graph_indicator="2\n1\n2\n1\n1\n3\n",
        A="1,3\n3,1\n2,4\n4,2\n4,5\n5,4\n",
        node_labels="1\n2\n1\n3\n4\n5\n",
        node_attributes=None,
    )
    dataset = read_own(folder)
    assert dataset.graph_ptr.tolist() == [0, 3, 5, 6]
    assert dataset.x.argmax(1).tolist() == [1, 2, 3, 0, 0, 4]
    pairs = {(u, v) for u, v in dataset.edge_index.t().tolist() if u < v}
    assert pairs == {(0, 1), (1, 2), (3, 4)}


def test_several_labels_of_nodes(tmp_path):
    labels = "0,5\n1,5\n0,5\n0,6\n0,5\n1,5\n"
    dataset = read_own(tu_folder(tmp_path / "DS", node_labels=labels, node_attributes=None))
    assert dataset.feature_names == ("label 1=0", "label 1=1", "label 2=5", "label 2=6")
    assert dataset.x[3].tolist() == [1, 0, 0, 1]


def test_other_files_get_the_same_columns(tmp_path):
    trained = read_own(tu_folder(tmp_path / "a"))
    assert trained.encoding == {"one_hot": {"label": ["3", "7", "9"]}}
    fewer = tu_folder(tmp_path / "b", node_labels="7\n7\n3\n3\n7\n7\n")
    other = read_own(fewer, **trained.encoding)
    assert other.feature_names == trained.feature_names
    assert other.x[:, 2:].argmax(1).tolist() == [1, 1, 0, 0, 1, 1]
    assert fingerprint(read_own(fewer, one_hot=["label"])) == fingerprint(read_own(fewer))


def test_labels_that_training_has_not_seen_are_errors(tmp_path):
    encoding = {"one_hot": {"label": ["3", "7"]}}
    with pytest.raises(OwnDataError) as caught:
        read_own(tu_folder(tmp_path / "DS"), **encoding)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("DS_node_labels.txt", 5)
    assert problem.message == "'label' holds 9, none of 3, 7"
    with pytest.raises(OwnDataError, match="no node labels 'label'.*its node labels are none"):
        read_own(tu_folder(tmp_path / "plain", node_labels=None), **encoding)


def test_graph_attributes_are_a_target(tmp_path):
    dataset = read_own(tu_folder(tmp_path / "DS", graph_attributes="0.5\n-1\n2e3\n"))
    assert dataset.task == "regression"
    np.testing.assert_array_equal(dataset.y, np.float32([0.5, -1, 2000]))
    assert any("labels of graphs are not used" in note for note in dataset.notes)


def test_whole_graph_attributes_are_a_target_too(tmp_path):
    assert read_own(tu_folder(tmp_path / "DS", graph_attributes="1\n2\n3\n")).task == "regression"


def test_graphs_without_labels_are_to_be_predicted(tmp_path):
    dataset = read_own(tu_folder(tmp_path / "DS", graph_labels=None))
    assert dataset.y.tolist() == [-1, -1, -1]
    assert any("no graph has a label" in note for note in dataset.notes)


def test_without_features_nodes_have_their_degrees(tmp_path):
    star = "".join(f"1,{leaf}\n{leaf},1\n" for leaf in range(2, 72)) + "1,1\n72,73\n73,72\n"
    folder = tu_folder(
        tmp_path / "DS",
        A=star,
        graph_indicator="1\n" * 71 + "2\n" * 2,
        graph_labels="0\n1\n",
        node_labels=None,
        node_attributes=None,
    )
    dataset = read_own(folder)
    assert dataset.num_features == 64
    assert dataset.x.argmax(1).tolist() == [63] + [1] * 72  # the self-loop does not count
    assert bool((dataset.x.sum(1) == 1).all())
    assert dataset.feature_names[0] == "degree=0" and dataset.feature_names[-1] == "degree>=63"
    assert any("their degrees are used, in 64 columns" in note for note in dataset.notes)


def test_no_edges(tmp_path):
    dataset = read_own(tu_folder(tmp_path / "DS", A=""))
    assert dataset.edge_index.shape == (2, 0)


def test_nodes_are_named_by_their_lines(tmp_path):
    # Sorted by graph they are 2, 4, 5, 1, 3, 6.
    folder = tu_folder(tmp_path / "DS", graph_indicator="2\n1\n2\n1\n1\n3\n", A="1,3\n2,4\n")
    assert "2 nodes without edges (5, 6)" in [problem.message for problem in check(folder)]


@pytest.mark.parametrize("labels", ["1\n\n0\n", "1\n0\n"])
def test_graphs_without_label_need_a_folder_with_graphs_csv(tmp_path, labels):
    (problem,) = check(tu_folder(tmp_path / "DS", graph_labels=labels))
    assert "write a folder with graphs.csv" in problem.advice


def test_parts_that_are_not_used_are_noted(tmp_path):
    folder = tu_folder(tmp_path / "DS", edge_labels="1\n" * 6, label_readme="about labels")
    (note,) = [problem for problem in check(folder) if "not used" in problem.message]
    assert note.message == "edge_labels not used"


WRONG = {
    "no node": ({"A": "1,2\n1,9\n0,2\n"}, [("A", 2, "joins 1 and 9"), ("A", 3, "joins 0 and 2")]),
    "a blank line": (
        {"A": "1,2\n\n3,4\n"},
        [("A", 2, "is not 2 whole numbers separated by commas (got '')")],
    ),
    "an edge across": (
        {"A": "1,2\n3,4\n"},
        [("A", 2, "joins node 3 of graph 1 and node 4 of graph 2")],
    ),
    "text": ({"A": "1,2\n1,x\n"}, [("A", 2, "(got '1,x')")]),
    "one end": ({"A": "1,2\n1\n"}, [("A", 2, "is not 2 whole numbers")]),
    "a fraction": ({"A": "1,2\n1.5,2\n"}, [("A", 2, "is not 2 whole numbers")]),
    "graph 0": (
        {"graph_indicator": "1\n1\n0\n2\n2\n3\n"},
        [("graph_indicator", 3, "graph 0 is none of 1 to 3")],
    ),
    "more graphs than labels": (
        {"graph_labels": "1\n0\n"},
        [("graph_indicator", 6, "graph 3 is none of 1 to 2")],
    ),
    "a graph without nodes": (
        {"graph_labels": "1\n0\n1\n0\n"},
        [("graph_labels", 4, "graph 4 has no nodes")],
    ),
    "an empty part": ({"graph_labels": "\n"}, [("graph_labels", None, "is empty")]),
    "labels of other nodes": (
        {"node_labels": "1\n2\n"},
        [("node_labels", None, "has 2 lines for 6 nodes")],
    ),
    "an attribute that is missing": (
        {"node_attributes": "1,2\n1\n" + "1,2\n" * 4},
        [("node_attributes", 2, "is not 2 numbers separated by commas")],
    ),
    "an attribute that is not finite": (
        {"node_attributes": "1\n1\n1e99\n1\n1\n1\n"},
        [("node_attributes", 3, "is not finite in 32 bits")],
    ),
    "NaN": ({"node_attributes": "1\nnan\n1\n1\n1\n1\n"}, [("node_attributes", 2, "is not a num")]),
    "one class": (
        {"graph_labels": "1\n1\n1\n"},
        [("graph_labels", None, "all labels are the one class '1'")],
    ),
    "one target": (
        {"graph_attributes": "2.5\n2.5\n2.5\n"},
        [("graph_attributes", None, "all targets are the one number 2.5")],
    ),
    "an infinite target": (
        {"graph_attributes": "2.5\n1e99\n0\n"},
        [("graph_attributes", None, "the target of graph 2 is not finite")],
    ),
    "two targets": (
        {"graph_attributes": "1,2\n3,4\n5,6\n"},
        [("graph_attributes", None, "has 2 targets of each graph")],
    ),
    "no edges file": ({"A": None}, [("DS", None, "lacks DS_A.txt")]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_shown_with_its_line(case, tmp_path):
    changes, wanted = WRONG[case]
    found = errors(tu_folder(tmp_path / "DS", **changes))
    assert len(found) == len(wanted)
    for (file, line, message), (part, at, text) in zip(found, wanted, strict=True):
        assert file == ("DS" if part == "DS" else f"DS_{part}.txt")
        assert line == at and text in message


def test_two_collections_in_one_folder(tmp_path):
    tu_folder(tmp_path / "DS")
    (tmp_path / "DS" / "OTHER_A.txt").write_text("1,2\n")
    assert "holds the collections DS, OTHER" in errors(tmp_path / "DS")[0][2]


def test_a_file_twice_in_a_zip(tmp_path):
    path = tu_zip(tmp_path / "DS.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("else/DS_A.txt", "1,2\n")
    assert "holds a file of the collection twice" in errors(path)[0][2]


def test_a_zip_without_a_collection(tmp_path):
    with zipfile.ZipFile(tmp_path / "DS.zip", "w") as archive:
        archive.writestr("photo.jpg", b"")
    assert "holds no collection in the text format" in errors(tmp_path / "DS.zip")[0][2]


def test_no_zip(tmp_path):
    (tmp_path / "DS.zip").write_bytes(b"PK\x03\x04 and nothing else")
    assert "is not a readable zip file" in errors(tmp_path / "DS.zip")[0][2]


def test_sizes_are_checked_before_unpacking(tmp_path, monkeypatch):
    path = tu_zip(tmp_path / "DS.zip", node_labels="0\n" * 500_000)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr("meanmax.data.readers.problems.memory", lambda: 1_000_000)
    monkeypatch.setattr("meanmax.data.readers.tu.read_zip", None)  # it is not called
    assert "more than half of this machine's memory" in errors(path)[0][2]


def test_a_member_may_not_claim_any_size(tmp_path):
    path = tu_zip(tmp_path / "DS.zip", node_labels="0\n" * 500_000)
    with max_unpacked(100_000):
        assert "more than the 100,000 that are allowed" in errors(path)[0][2]


def test_paths_in_a_zip_are_not_written(tmp_path):
    folder = tmp_path / "only"
    folder.mkdir()
    path = tu_zip(folder / "DS.zip", prefix="../../escaped/")
    assert read_own(path).num_graphs == 3
    assert [each.name for each in folder.iterdir()] == ["DS.zip"]
    assert not (tmp_path / "escaped").exists() and not (tmp_path.parent / "escaped").exists()


def test_a_broken_member(tmp_path):
    path = tu_zip(tmp_path / "DS.zip")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        at = archive.getinfo("DS/DS_A.txt").header_offset + 30 + len("DS/DS_A.txt")
    data[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert "is not a readable zip file" in errors(path)[0][2]


def test_options_of_tables_are_refused(tmp_path):
    with pytest.raises(OwnDataError, match="takes no 'impute'"):
        read_own(tu_folder(tmp_path / "DS"), impute="mean")
    with pytest.raises(OwnDataError, match="no node labels 'colour'.*are 'label'"):
        read_own(tu_folder(tmp_path / "DS"), one_hot=["colour"])
    assert issubclass(OwnDataError, DataError)

"""A folder of tables of graphs, nodes and edges."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from meanmax.data import fingerprint, make_split
from meanmax.data.readers import TABLES, OwnDataError, check, read_own

from .graphs import COLLECTION, collection_folder

pytestmark = pytest.mark.extra  # tables are read with packages of an extra

# Names that differ need no graphs in the edges.
UNIQUE = {
    "nodes.csv": "graph,id,charge\nmol2,a2,1\nmol1,a1,2\nmol1,b1,3\nmol3,a3,4\nmol2,c2,5\n",
    "edges.csv": "source,target,weight\na1,b1,2\nc2,a2,0.5\n",
}


def errors(path):
    return [
        (problem.file, problem.line, problem.message)
        for problem in check(path)
        if problem.severity == "error"
    ]


def notes(path):
    return [problem.message for problem in check(path) if problem.severity == "note"]


def test_graphs_have_the_labels(tmp_path):
    dataset = read_own(collection_folder(tmp_path))
    assert (dataset.name, dataset.level) == ("mine", "graph")
    assert dataset.graph_ids.tolist() == ["mol1", "mol2", "mol3"]
    assert dataset.y.tolist() == [1, 0, -1] and dataset.class_names == ("safe", "toxic")
    assert dataset.graph_ptr.tolist() == [0, 2, 4, 5]
    assert dataset.node_ids.tolist() == ["a", "b", "a", "c", "a"]
    assert dataset.x[:, 0].tolist() == [2, 3, 1, 5, 4] and dataset.feature_names == ("charge",)
    assert dataset.edge_index.tolist() == [[1, 0, 3, 2], [0, 1, 2, 3]]
    assert dataset.edge_weight.tolist() == [2, 2, 0.5, 0.5]
    split = make_split(dataset)
    assert [split.train.tolist(), split.val.tolist(), split.test.tolist()] == [[0], [1], []]


def test_names_that_differ_need_no_graphs_in_the_edges(tmp_path):
    tables = {name.removesuffix(".csv"): text for name, text in UNIQUE.items()}
    one, other = collection_folder(tmp_path / "a"), collection_folder(tmp_path / "b", **tables)
    assert fingerprint(read_own(one)) == fingerprint(read_own(other))


def test_sets_need_no_edges(tmp_path):
    path = collection_folder(tmp_path, edges=None)
    assert errors(path) == []
    assert [note for note in notes(path) if "edges" in note] == [
        "has no edges: its graphs are sets of nodes"
    ]
    found, wanted = read_own(path), read_own(collection_folder(tmp_path / "with"))
    assert found.edge_index.shape == (2, 0) and found.edge_weight is None
    assert found.node_ids.tolist() == ["a", "b", "a", "c", "a"]  # names repeat between sets
    assert found.x.tolist() == wanted.x.tolist() and found.y.tolist() == wanted.y.tolist()
    (path / "graphs.csv").unlink()
    assert errors(path) == [
        ("mine", None, f"the folder holds no edges.csv (nor {', '.join(TABLES[1:])})")
    ]


def test_nodes_of_sets_need_no_identifiers(tmp_path):
    nodes = "graph,charge\nmol2,1\nmol1,2\nmol1,3\nmol3,4\nmol2,5\n"
    found = read_own(collection_folder(tmp_path / "a", nodes=nodes, edges=None))
    assert fingerprint(found) == fingerprint(read_own(collection_folder(tmp_path, edges=None)))
    assert found.node_ids is None
    (problem,) = errors(collection_folder(tmp_path / "b", nodes=nodes))
    assert "must have one column of identifiers (got 'graph', 'charge')" in problem[2]


def test_formats_and_other_names_of_columns(tmp_path):
    want = fingerprint(read_own(collection_folder(tmp_path / "a")))
    packed = collection_folder(tmp_path / "b", graphs=None, edges=None)
    graphs = COLLECTION["graphs.csv"].replace("id,label", "graph_id,class").replace(",", "\t")
    (packed / "graphs.tsv.gz").write_bytes(gzip.compress(graphs.encode(), mtime=0))
    edges = {"Graph": ["mol1", "mol2"], "src": ["a", "c"], "dst": ["b", "a"], "w": [2, 0.5]}
    pa.parquet.write_table(pa.table(edges), packed / "edges.parquet")
    assert fingerprint(read_own(packed)) == want
    assert fingerprint(read_own(packed / "nodes.csv")) == want


def test_numbered_graphs_and_nodes(tmp_path):
    path = collection_folder(
        tmp_path,
        graphs="id,label\n7,x\n10,y\n",
        nodes="graph,id,f\n10,0,1\n7,0,2\n7,1,3\n10,1,4\n",
        edges="graph,source,target\n7,0,1\n10,1,0\n",
    )
    dataset = read_own(path)
    assert dataset.graph_ids.tolist() == ["7", "10"]
    assert dataset.x[:, 0].tolist() == [2, 3, 1, 4]


@pytest.mark.parametrize(
    ("graphs", "task", "want"),
    [
        ("id,label\nmol1,0.5\nmol2,2\nmol3,\n", "regression", [0.5, 2, np.nan]),
        ("id,target\nmol1,0.5\nmol2,2\nmol3,1\n", "regression", [0.5, 2, 1]),
        ("id,label\nmol1,a|b\nmol2,b\nmol3,\n", "multilabel", [[1, 1], [0, 1], [np.nan] * 2]),
        ("id,label_p,label_q\nmol1,1,1\nmol2,0,1\nmol3,,\n", "multilabel",
         [[1, 1], [0, 1], [np.nan] * 2]),
        ("id\nmol1\nmol2\nmol3\n", "multiclass", [-1, -1, -1]),
    ],
)  # fmt: skip
def test_labels_are_read_as_those_of_nodes(graphs, task, want, tmp_path):
    dataset = read_own(collection_folder(tmp_path, graphs=graphs))
    assert (dataset.task, dataset.level) == (task, "graph")
    np.testing.assert_array_equal(dataset.y, np.float32(want))


def test_without_features_nodes_have_their_degrees(tmp_path):
    path = collection_folder(tmp_path, nodes="graph,id\nmol2,a\nmol1,a\nmol1,b\nmol3,a\nmol2,c\n")
    dataset = read_own(path)
    assert dataset.x.argmax(1).tolist() == [1, 1, 1, 1, 0]
    assert dataset.feature_names[1] == "degree=1"
    assert "nodes have no features: their degrees are used, in 64 columns" in notes(path)


def test_categories_of_nodes(tmp_path):
    nodes = "graph,id,kind\nmol2,a,C\nmol1,a,N\nmol1,b,C\nmol3,a,\nmol2,c,C\n"
    dataset = read_own(collection_folder(tmp_path, nodes=nodes), one_hot=["kind"], impute="zero")
    assert dataset.feature_names == ("kind=C", "kind=N")
    assert dataset.x.tolist() == [[0, 1], [1, 0], [1, 0], [1, 0], [0, 0]]
    with pytest.raises(OwnDataError, match="has no feature column 'colour'"):
        read_own(collection_folder(tmp_path, nodes=nodes), one_hot=["colour"])


def test_what_is_not_used_is_noted(tmp_path):
    path = collection_folder(
        tmp_path,
        graphs="id,label,mass\nmol1,x,1\nmol2,y,2\nmol3,,3\n",
        nodes="graph,id,label,charge\nmol2,a,N,1\nmol1,a,C,2\nmol1,b,C,3\nmol3,a,C,4\nmol2,c,C,5\n",
        edges="graph,source,target,kind\nmol1,a,b,single\n",
    )
    found = notes(path)
    assert "'mass' of graphs not used" in found
    assert "'label' of nodes not used: graphs have labels and splits" in found
    assert "columns 'kind' are not used" in found


def test_small_classes_are_noted(tmp_path):
    lines = "".join(f"g{n},{'x' if n < 3 else 'y'}\n" for n in range(15))
    nodes = "".join(f"g{n},{n},1\n" for n in range(15))
    path = collection_folder(
        tmp_path, graphs=f"id,label\n{lines}", nodes=f"graph,id,f\n{nodes}",
        edges="source,target\n0,0\n",
    )  # fmt: skip
    assert "1 class has 9 or fewer labelled graphs ('x': 3)" in notes(path)


@pytest.mark.parametrize(("count", "advice"), [(3, "--split file:PATH"), (6, "--split random")])
def test_too_few_graphs_for_folds_are_noted(tmp_path, count, advice):
    lines = "".join(f"g{n},{'xy'[n % 2]}\n" for n in range(count))
    nodes = "".join(f"g{n},{n},1\n" for n in range(count))
    path = collection_folder(
        tmp_path, graphs=f"id,label\n{lines}", nodes=f"graph,id,f\n{nodes}", edges=None
    )
    (problem,) = [problem for problem in check(path) if "edges" not in problem.message]
    message = f"{count} graphs with a label, too few for the 10 folds of the default split"
    assert problem.message == message and advice in problem.advice


WRONG = {
    "a graph without nodes": (
        {"graphs": "id,label\nmol1,x\nmol2,y\nmol3,x\nmol4,y\n"},
        [("graphs.csv", 5, "'mol4' has no nodes")],
    ),
    "an unknown graph": (
        {"graphs": "id,label\nmol1,x\nmol2,y\n"},
        [("nodes.csv", 5, "graph 'mol3' is not in graphs.csv")],
    ),
    "no graph": (
        {"nodes": COLLECTION["nodes.csv"].replace("mol3,a", ",a")},
        [("nodes.csv", 5, "no graph")],
    ),
    "an unknown graph of an edge": (
        {"edges": "graph,source,target\nmol1,a,b\nmol9,a,b\n"},
        [("edges.csv", 3, "graph 'mol9' is not in graphs.csv")],
    ),
    "an unknown node": (
        {"edges": "graph,source,target\nmol1,a,c\n"},
        [("edges.csv", 2, "target 'c' is not among the nodes of graph 'mol1'")],
    ),
    "an edge across": (
        UNIQUE | {"edges.csv": "source,target\na1,b1\nb1,c2\n"},
        [("edges.csv", 3, "joins node 'b1' of graph 'mol1' and node 'c2' of graph 'mol2'")],
    ),
    "a node twice in a graph": (
        {"nodes": COLLECTION["nodes.csv"].replace("mol1,b", "mol1,a")},
        [("nodes.csv", 4, "node 'a' occurs already on line 3"),
         ("edges.csv", 2, "'b' is not among the nodes of graph 'mol1'")],
    ),
    "names that repeat": (
        {"edges": "source,target\na,b\n"},
        [("nodes.csv", 3, "node 'a' occurs already on line 2"),
         ("nodes.csv", 5, "node 'a' occurs already on line 2"),
         ("edges.csv", 2, "joins node 'a' of graph 'mol2' and node 'b' of graph 'mol1'")],
    ),
    "a graph twice": (
        {"graphs": "id,label\nmol1,x\nmol2,y\nmol1,y\nmol3,x\n"},
        [("graphs.csv", 4, "graph 'mol1' occurs already on line 2")],
    ),
    "a graph without name": (
        {"graphs": "id,label\nmol1,x\nmol2,y\n\"\",y\nmol3,x\n"},
        [("graphs.csv", 4, "the graph has no identifier")],
    ),
    "one class": (
        {"graphs": "id,label\nmol1,x\nmol2,x\nmol3,\n"},
        [("graphs.csv", None, "all labels are the one class 'x'")],
    ),
    "one target": (
        {"graphs": "id,label\nmol1,1.5\nmol2,1.5\nmol3,\n"},
        [("graphs.csv", None, "all targets are the one number 1.5")],
    ),
    "an infinite target": (
        {"graphs": "id,label\nmol1,1.5\nmol2,1e99\nmol3,\n"},
        [("graphs.csv", None, "the target of graph 'mol2' is not finite")],
    ),
    "an unknown part": (
        {"graphs": COLLECTION["graphs.csv"].replace("val", "check")},
        [("graphs.csv", 3, "unknown split 'check'")],
    ),
    "no training": (
        {"graphs": COLLECTION["graphs.csv"].replace("train", "test")},
        [("graphs.csv", None, "the split trains on no labelled graph")],
    ),
    "no column of graphs": (
        {"nodes": "id,f\na,1\nb,2\n"},
        [("nodes.csv", None, "must have a column of the graph of each node (got 'id', 'f')")],
    ),
    "two columns of graphs": (
        {"nodes": "graph,graph_id,id,f\nmol1,mol1,a,1\n"},
        [("nodes.csv", None, "has the columns 'graph', 'graph_id'")],
    ),
    "two names of a graph": (
        {"graphs": "id,graph,label\nmol1,1,x\n"},
        [("graphs.csv", None, "must have one column of identifiers (got columns 'id', 'graph')")],
    ),
    "no rows": ({"graphs": "id,label\n"}, [("graphs.csv", None, "has no graphs")]),
    "no nodes": ({"nodes": "id,graph,f\n"}, [("nodes.csv", None, "has no nodes")]),
    "a feature": (
        {"nodes": COLLECTION["nodes.csv"].replace("b,3", "b,many")},
        [("nodes.csv", 4, "feature 'charge' is not a number (got 'many')")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_shown_with_its_line(case, tmp_path):
    changes, wanted = WRONG[case]
    changes = {name.removesuffix(".csv"): text for name, text in changes.items()}
    found = errors(collection_folder(tmp_path, **changes))
    assert [each[:2] for each in found] == [each[:2] for each in wanted], found
    for (*_, message), (*_, text) in zip(found, wanted, strict=True):
        assert text in message


def test_two_tables_of_graphs(tmp_path):
    path = collection_folder(tmp_path)
    (path / "graphs.tsv").write_text("id\tlabel\n")
    assert errors(path) == [("mine", None, "holds graphs.csv, graphs.tsv")]

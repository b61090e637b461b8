import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from meanmax.data.readers import OwnDataError, check, read_own, tables

from . import graphs

pytestmark = pytest.mark.extra  # tables, GraphML and JSON are read with packages of an extra

PLAIN = "id,f,label\n0,1,a\n1,2,b\n2,3,a\n"
TRIANGLE = [[1, 2, 0, 2, 0, 1], [0, 0, 1, 1, 2, 2]]

EDGES = {
    "named": "source,target\n0,1\n1,2\n2,0\n",
    "other order": "kind,target,source\nx,1,0\nx,2,1\nx,0,2\n",
    "aliases": "src,dst\n0,1\n1,2\n2,0\n",
    "from and to": "From,To\n0,1\n1,2\n2,0\n",
    "no names": "0,1\n1,2\n2,0\n",
    "no last newline": "0,1\n1,2\n2,0",
    "semicolons": "source;target\n0;1\n1;2\n2;0\n",
    "tabs": "source\ttarget\n0\t1\n1\t2\n2\t0\n",
    "spaces": "source, target\n0, 1\n 1 ,2\n2,0\n",
    "carriage returns": "source,target\r\n0,1\r\n1,2\r\n2,0\r\n",
    "old Macintosh": "source,target\r0,1\r1,2\r2,0\r",
    "byte order mark": "\ufeffsource,target\n0,1\n1,2\n2,0\n",
    "blank lines": "\nsource,target\n\n0,1\n1,2\n\n2,0\n\n",
    "quotes": '"source","target"\n"0","1"\n1,"2"\n"2",0\n',
    "both ways": "0,1\n1,0\n1,2\n2,1\n0,2\n2,0\n",
    "repeated": "0,1\n0,1\n1,2\n2,0\n1,2\n",
}


@pytest.mark.parametrize("case", EDGES)
def test_ways_to_write_edges(case, tmp_path):
    dataset = read_own(graphs.csv_folder(tmp_path, PLAIN, EDGES[case]))
    assert dataset.edge_index.tolist() == TRIANGLE
    assert dataset.edge_weight is None


def test_third_column_without_names_is_the_weight(tmp_path):
    dataset = read_own(graphs.csv_folder(tmp_path, PLAIN, "0,1,2.5\n1,2,0\n"))
    assert dataset.edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert dataset.edge_weight.tolist() == [2.5, 2.5, 0.0, 0.0]


@pytest.mark.parametrize("directed, want", [(False, [4.0, 4.0]), (True, [4.0, 3.0])])
def test_of_repeated_edges_the_largest_weight_counts(directed, want, tmp_path):
    edges = "source,target,weight\n0,1,3\n1,0,2\n1,0,4\n"
    dataset = read_own(graphs.csv_folder(tmp_path, PLAIN, edges), directed=directed)
    assert dataset.edge_index.tolist() == [[1, 0], [0, 1]]
    assert dataset.edge_weight.tolist() == want


def test_no_edges_at_all(tmp_path):
    dataset = read_own(graphs.csv_folder(tmp_path, PLAIN, "source,target\n"))
    assert dataset.edge_index.shape == (2, 0)


LABELS = {
    "numbers by size": ("label", ["10", "9", "10"], [1, 0, 1], ("9", "10")),
    "floats from a gap": ("label", ["1.0", "", "0.0"], [1, -1, 0], ("0", "1")),
    "names": ("class", ["b", "a", " b "], [1, 0, 1], ("a", "b")),
    "gaps": ("label", ["NA", "b", "nan", "a"], [-1, 1, -1, 0], ("a", "b")),
    "-1 for a gap": ("label", ["-1", "5", "0"], [-1, 1, 0], ("0", "5")),
    "-1.0 for a gap": ("label", ["-1.0", "5.0", "nan", "0.0"], [-1, 1, -1, 0], ("0", "5")),
    "-1 as a class": ("label", ["-1", "1", "1"], [0, 1, 1], ("-1", "1")),
    "-1 among names": ("label", ["-1", "b", "b"], [0, 1, 1], ("-1", "b")),
    "sodium": ("label", ["Na", "K", "K"], [1, 0, 0], ("K", "Na")),
    "y": ("y", ["b", "a", "b"], [1, 0, 1], ("a", "b")),
    "target": ("Target", ["b", "a", "b"], [1, 0, 1], ("a", "b")),
    "gaps in columns": (
        "label_x,label_y",
        ["1,0", "0,1", "nan,NA"],
        [[1, 0], [0, 1], None],
        ("x", "y"),
    ),
    "none": ("label", ["", "", ""], [-1, -1, -1], ()),
    "several": ("label", ["b|a", "", "c"], [[1, 1, 0], None, [0, 0, 1]], ("a", "b", "c")),
    "columns": ("label_x,label_y", ["1,0", "0,true", ","], [[1, 0], [0, 1], None], ("x", "y")),
}


@pytest.mark.parametrize("case", LABELS)
def test_ways_to_write_labels(case, tmp_path):
    column, cells, want, names = LABELS[case]
    rows = "".join(f"{number},1,{cell}\n" for number, cell in enumerate(cells))
    dataset = read_own(graphs.csv_folder(tmp_path, f"id,f,{column}\n{rows}", "0,1\n1,2\n"))
    assert dataset.class_names == names
    got = [
        row if known else None
        for row, known in zip(dataset.y.tolist(), dataset.labelled, strict=True)
    ]
    assert got == [None if row == -1 else row for row in want]


def test_without_label_column_everything_is_to_be_predicted(tmp_path):
    dataset = read_own(graphs.csv_folder(tmp_path, "id,f\n0,1\n1,2\n", "0,1\n"))
    assert dataset.y.tolist() == [-1, -1]
    assert not dataset.labelled.any()


def test_truth_values_are_features(tmp_path):
    nodes = "id,red,big,label\n0,True,FALSE,a\n1,false,1,b\n"
    assert read_own(graphs.csv_folder(tmp_path, nodes, "0,1\n")).x.tolist() == [[1, 0], [0, 1]]


def test_typed_columns_of_parquet(tmp_path):
    path = graphs.write(tmp_path / "mine", {"edges.csv": "10,20\n20,30\n"})
    table = pa.table(
        {
            "id": [10.0, 20.0, 30.0],
            "f": pa.array([1, 2, 3], pa.uint8()),
            "flag": [True, False, True],
            "label": pa.array(["x", None, "y"]).dictionary_encode(),
        }
    )
    pyarrow.parquet.write_table(table, path / "nodes.parquet")
    dataset = read_own(path)
    assert dataset.node_ids.tolist() == ["10", "20", "30"]
    assert dataset.x.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert dataset.y.tolist() == [0, -1, 1]


def test_rows_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 64)
    names = ",".join(f"f{number}" for number in range(300))
    rows = "".join(f"{node}{f',{node}.25' * 300}\n" for node in range(3))
    dataset = read_own(graphs.csv_folder(tmp_path, f"id,{names}\n{rows}", "0,1\n1,2\n"))
    want = torch.tensor([0.25, 1.25, 2.25]).repeat_interleave(300).view(3, 300)
    assert torch.equal(dataset.x, want)


def test_many_blocks_agree_with_numpy(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 256)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 50, (500, 2))
    nodes = "id,f,label\n" + "".join(f"n{node},{node},{node % 2}\n" for node in range(50))
    edges = "".join(f"n{u},n{v}\n" for u, v in pairs)
    dataset = read_own(graphs.csv_folder(tmp_path, nodes, edges), directed=True)
    want = np.zeros((50, 50), bool)
    want[pairs[:, 0], pairs[:, 1]] = True
    got = np.zeros((50, 50), bool)
    got[tuple(dataset.edge_index.numpy())] = True
    assert np.array_equal(got, want)
    assert dataset.edge_index.size(1) == want.sum()


def test_two_files_of_one_table(tmp_path):
    path = graphs.csv_folder(tmp_path)
    (path / "edges.tsv").write_text("a\tb\n")
    assert "edges.csv, edges.tsv" in check(path)[0].message


@pytest.mark.parametrize("stem, advice", [("nodes", "without features"), ("edges", "source")])
def test_missing_file_says_what_to_supply(stem, advice, tmp_path):
    path = graphs.csv_folder(tmp_path)
    (path / f"{stem}.csv").unlink()
    (problem,) = check(path)
    assert f"no {stem}.csv" in problem.message
    assert advice in problem.advice


def parquet_nodes(tmp_path, columns, edges="0,1\n1,2\n"):
    path = graphs.write(tmp_path / "mine", {"edges.csv": edges})
    pyarrow.parquet.write_table(pa.table(columns), path / "nodes.parquet")
    return path


def test_nan_in_parquet_is_no_label(tmp_path):
    nodes = {"id": [0, 1, 2], "f": [1.0, 2.0, 3.0], "label": pa.array([3.0, np.nan, 7.0])}
    dataset = read_own(parquet_nodes(tmp_path, nodes))
    assert (dataset.y.tolist(), dataset.class_names) == ([0, -1, 1], ("3", "7"))


@pytest.mark.parametrize(
    "kind, good, alike", [("float64", 2**53 - 1, 2e19), ("float32", 2**24 - 1, 2**25)]
)
def test_float_identifiers_that_look_alike(kind, good, alike, tmp_path):
    nodes = {"id": np.array([1, 2, good], kind), "f": [1, 2, 3], "label": ["x", "y", "y"]}
    path = parquet_nodes(tmp_path, nodes, f"1,2\n2,{good}\n")
    assert read_own(path).node_ids.tolist() == ["1", "2", str(good)]
    table = pa.table({"source": np.array([1, alike], kind), "target": [2, 2]})
    pyarrow.parquet.write_table(table, path / "edges.parquet")
    (path / "edges.csv").unlink()
    with pytest.raises(OwnDataError, match="'source' holds .* too large to distinguish integers"):
        read_own(path)
    path = parquet_nodes(tmp_path / "ids", {**nodes, "id": np.array([1, 2, alike], kind)})
    with pytest.raises(OwnDataError, match="'id' holds .* too large to distinguish integers"):
        read_own(path)


def test_many_groups_of_rows_are_one_table(tmp_path):
    path = graphs.write(tmp_path / "mine", {"edges.csv": "n0,n1\n"})
    columns = {"id": [f"n{n}" for n in range(7)], "f": range(7), "label": [*"abcabc", None]}
    pyarrow.parquet.write_table(pa.table(columns), path / "nodes.parquet", row_group_size=2)
    dataset = read_own(path)
    assert dataset.node_ids.tolist() == columns["id"]
    assert dataset.x.flatten().tolist() == list(range(7))
    assert dataset.y.tolist() == [0, 1, 2, 0, 1, 2, -1]


@pytest.mark.parametrize("column", [[[1], [2], [3]], [{"a": 1}] * 3])
def test_nested_columns_are_refused(column, tmp_path):
    path = parquet_nodes(tmp_path, {"id": [0, 1, 2], "f": column})
    with pytest.raises(OwnDataError, match="column 'f' holds (list|struct)"):
        read_own(path)


def test_splits_may_be_numbered(tmp_path):
    nodes = "id,f,label,split\n0,1,a,0\n1,2,b,1\n2,3,a,2\n3,1,b,-1\n4,1,b,Testing\n"
    split = read_own(graphs.csv_folder(tmp_path, nodes, "0,1\n")).split
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [1], [2, 4]]

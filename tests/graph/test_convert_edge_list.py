import builtins
import gzip

import pytest
import torch

from meanmax.graph import Graph, convert

EDGES = [[0, 2, 1, 0], [1, 0, 1, 3]]
WEIGHTS = [0.5, 2.0, 1e-3, 0.0]

PLAIN = {
    "spaces": "0 1\n2 0\n1 1\n0 3\n",
    "no last newline": "0 1\n2 0\n1 1\n0 3",
    "tabs": "0\t1\n2\t0\n1\t1\n0\t3\n",
    "aligned": "  0   1 \n  2   0\n  1\t 1\n  0   3\n",
    "commas": "0,1\n2,0\n1,1\n0,3\n",
    "commas and spaces": "0, 1\n2 , 0\n1,1\n0, 3\n",
    "carriage returns": "0 1\r\n2 0\r\n1 1\r\n0 3\r\n",
    "comments": "# SNAP\n# FromNodeId ToNodeId\n0 1\n2 0  # here\n\n1 1\n# there\n0 3\n",
    "percent": "% KONECT\n0 1\n2 0\n% there\n1 1\n0 3\n",
    "both comments": "# one\n0 1\n2 0\n% other\n1 1\n0 3\n",
    "header": "source target\n0 1\n2 0\n1 1\n0 3\n",
    "comma header": "# made by hand\n\nsource,target\n0,1\n2,0\n1,1\n0,3\n",
    "whole floats": "0 1\n2.0 0.0\n1 1\n0 3\n",
    "byte order mark": "\ufeff0 1\n2 0\n1 1\n0 3\n",
}
WEIGHTED = {
    "spaces": "0 1 0.5\n2 0 2\n1 1 1e-3\n0 3 0\n",
    "commas": "u,v,w\n0,1,0.5\n2,0,2\n1,1,1e-3\n0,3,0\n",
}


@pytest.fixture(params=["pandas", "numpy"])
def reader(request, monkeypatch):
    if request.param == "numpy":
        original = builtins.__import__

        def without_pandas(name, *args, **options):
            if name == "pandas":
                raise ImportError(name)
            return original(name, *args, **options)

        monkeypatch.setattr(builtins, "__import__", without_pandas)
    return request.param


def write(folder, text):
    path = folder / "edges.txt"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("case", PLAIN)
def test_plain_edges(case, reader, tmp_path, monkeypatch):
    if case not in ("both comments", "whole floats"):
        monkeypatch.setattr(convert, "_read_line_by_line", None)  # the fast reader must do
    graph = Graph.from_file(write(tmp_path, PLAIN[case]))
    assert graph.edge_index.tolist() == EDGES
    assert graph.weight is None
    assert graph.num_nodes == 4


@pytest.mark.parametrize("case", WEIGHTED)
def test_weighted_edges(case, reader, tmp_path):
    graph = Graph.from_file(write(tmp_path, WEIGHTED[case]))
    assert graph.edge_index.tolist() == EDGES
    assert graph.weight.dtype == torch.float32
    assert graph.edge_weight.tolist() == torch.tensor(WEIGHTS).tolist()


def test_gzip(reader, tmp_path):
    path = tmp_path / "edges.txt.gz"
    path.write_bytes(gzip.compress(PLAIN["comments"].encode()))
    assert Graph.from_file(path).edge_index.tolist() == EDGES


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "source target\n"])
def test_no_edges(text, reader, tmp_path):
    graph = Graph.from_file(str(write(tmp_path, text)), num_nodes=3, self_loops=True)
    assert graph.edge_index.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_options(tmp_path):
    path = write(tmp_path, WEIGHTED["spaces"])
    graph = Graph.from_file(path, num_nodes=6, normalize="row", self_loops="replace")
    assert (graph.num_nodes, graph.num_edges) == (6, 9)
    assert Graph.from_file(path, num_nodes=(3, 4)).num_src == 3


MALFORMED = {
    "a word": ("0 1\n2 0\n1 x\n0 3\n", "line 3 of .* two integers .*got '1 x'"),
    "a first word": ("0 x\n2 0\n", "line 1 of .*got '0 x'"),
    "a second header": ("a b\nc d\n0 1\n", "line 2 of .*got 'c d'"),
    "a fraction": ("0 1\n# comment\n2.5 0\n", "line 3 of .*got '2.5 0'"),
    "a huge node": ("0 1\n99999999999999999999 0\n", "line 2 of .*got '9999"),
    "an empty field": ("0,1\n2,\n", "line 2 of .*got '2,'"),
    "too few": ("0 1\n2\n1 1\n", "line 2 of .*got '2'"),
    "too many": ("0 1\n2 0\n1 1 1 1\n", "line 3 of .*got '1 1 1 1'"),
    "a weight more": ("0 1\n2 0 0.5\n", "line 2 of .* two integers 'source target' .*'2 0 0.5'"),
    "a weight less": ("0 1 1\n\n2 0\n", "line 3 of .* 'source target weight' .*got '2 0'"),
    "four columns": ("0 1 1 1\n2 0 1 1\n", r"line 1 of .*'source target \[weight\]'"),
    "one column": ("0\n1\n", "line 1 of .*got '0'"),
    "a negative node": (
        "0 1\n-2 0\n",
        r"source indices must not be negative \(got -2\)",
    ),
    "a negative weight": ("0 1 1\n2 0 -1\n", r"'edge_weight' must not be negative \(got -1\)"),
    "no weight": ("0 1 1\n2 0 nan\n", r"'edge_weight' must be finite \(got NaN\)"),
    "Matrix Market": ("%%MatrixMarket matrix\n2 2 1\n1 2 1\n", "scipy.io.mmread"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_line_is_named(case, reader, tmp_path):
    text, message = MALFORMED[case]
    with pytest.raises(ValueError, match=message):
        Graph.from_file(write(tmp_path, text))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no edge-list file '.*absent.txt'"):
        Graph.from_file(tmp_path / "absent.txt")


@pytest.mark.parametrize("damage", [lambda d: d[:-6], lambda d: b"0,1\n", lambda d: d[:10] + b"xx"])
def test_damaged_gzip_files(damage, tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(damage(gzip.compress(b"0,1\n1,2\n")))
    with pytest.raises(ValueError, match="is no gzip file, or is damaged"):
        Graph.from_file(path)


def test_a_long_line_is_quoted_in_part(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("0,1\n" + "a," * 5000)
    with pytest.raises(ValueError, match="line 2 of") as raised:
        Graph.from_file(path)
    assert len(str(raised.value)) < 400


def test_a_number_far_beyond_the_file_is_refused(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n1 1000000000\n")
    with pytest.raises(ValueError, match="an edge of node 1,000,000,000, .* pass 'num_nodes'"):
        Graph.from_file(path)
    path.write_text("0 1\n1 9999999\n")
    assert Graph.from_file(path).num_dst == 10_000_000

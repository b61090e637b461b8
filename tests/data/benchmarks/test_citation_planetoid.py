import numpy as np
import pytest

from meanmax.data.benchmarks.citation import read_citation, read_planetoid
from meanmax.data.files import DataError

from ..mutate import only_clear_errors
from . import python2
from .test_citation_unpickle import attacks


def test_rows_of_test_nodes_go_where_the_index_says():
    raw = read_planetoid("cora", python2.tiny_cora())
    assert raw.x.toarray().tolist() == [
        [1, 1, 0],
        [0, 2, 0],
        [0, 0, 0],
        [1, 1, 2],
        [4, 0, 4],  # second line of the index
        [0, 0, 0],  # missing there
        [0, 1, 0],  # first line
    ]
    assert raw.y.tolist() == [0, 1, 2, 3, 5, -1, 4]
    assert raw.split.train.tolist() == [0, 1]
    assert raw.split.test.tolist() == [4, 6]


def test_preparation():
    dataset = read_citation("cora", python2.tiny_cora())
    np.testing.assert_allclose(
        dataset.x.to_dense(),
        [
            [0.5, 0.5, 0],
            [0, 1, 0],
            [0, 0, 0],
            [0.25, 0.25, 0.5],
            [0.5, 0, 0.5],
            [0, 0, 0],
            [0, 1, 0],
        ],
    )
    assert dataset.edge_index.t().tolist() == [[1, 0], [0, 1], [4, 3], [6, 3], [3, 4], [3, 6]]
    assert dataset.labelled.tolist() == [True] * 5 + [False, True]


WRONG = {
    "test ids twice": {"test.index": b"6\n6\n"},
    "test id of a training node": {"test.index": b"6\n3\n"},
    "far test id": {"test.index": b"6\n999999\n"},
    "words for numbers": {"test.index": b"6\nfour\n"},
    "fewer test ids": {"test.index": b"6\n"},
    "citation of nobody": {"graph": python2.pickle(python2.graph({0: [7]}))},
    "citation by nobody": {"graph": python2.pickle(python2.graph({-1: [0]}))},
    "array for a graph": {"graph": python2.pickle(python2.array(np.arange(3)))},
    "two classes": {"ally": python2.pickle(python2.array(np.ones((4, 7), np.int32)))},
    "graph for a matrix": {"tx": python2.pickle(python2.graph({0: [1]}))},
    "more classes": {"ty": python2.pickle(python2.array(np.eye(9, dtype=np.int32)[[7, 8]]))},
    "columns": {"tx": python2.pickle(python2.array(np.ones((2, 3), np.float32)))},
}


@pytest.mark.parametrize("case", WRONG)
def test_files_that_disagree_are_refused(case):
    changed = {f"ind.cora.{part}": content for part, content in WRONG[case].items()}
    with pytest.raises(DataError, match="cora"):
        read_citation("cora", python2.tiny_cora() | changed)


@pytest.mark.parametrize("part", ["allx", "ty", "graph", "test.index"])
def test_damaged_files(part):
    files = python2.tiny_cora()
    file = f"ind.cora.{part}"

    def parse(content):
        return read_citation("cora", files | {file: content})

    assert only_clear_errors(parse, files[file], 400) > 50


@pytest.mark.parametrize("part", ["x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"])
def test_a_malicious_file_runs_nothing_even_if_its_hash_were_right(part, tmp_path):
    victim = tmp_path / "was-here"
    for program in attacks(victim):
        files = python2.tiny_cora() | {f"ind.cora.{part}": program}
        if part == "x":  # its rows are the first of allx: it is not read at all
            read_citation("cora", files)
        else:
            with pytest.raises(DataError, match=part):
                read_citation("cora", files)
    assert not victim.exists()

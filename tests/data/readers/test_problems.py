import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from meanmax.data.readers import DataProblem, OwnDataError, check, read_own
from meanmax.data.readers.problems import Diagnostics

from . import graphs

pytestmark = pytest.mark.extra  # tables, GraphML and JSON are read with packages of an extra

NODES = "id,f,label\na,1,x\nb,2,y\nc,3,x\n"
EDGES = "source,target\na,b\nb,c\n"

# What is written, and the places of the errors that must be found: file, line, part of the message.
WRONG = {
    "unknown nodes": (
        NODES,
        "source,target\na,b\nb,zoe\n\nyan,c\nc,a\n",
        [("edges.csv", 3, "target 'zoe' is not"), ("edges.csv", 5, "source 'yan' is not")],
    ),
    "no header": (NODES, "u1,v1\na,b\n", [("edges.csv", 1, "a header says"), ("edges.csv", 1, "")]),
    "an empty end": (NODES, "source,target\na,\n", [("edges.csv", 2, "target is empty")]),
    "weights": (
        NODES,
        "source,target,weight\na,b,-1\nb,c,nan\na,c,\nc,a,heavy\nb,b,1e60\na,a,1\n",
        [("edges.csv", line, "finite number >= 0") for line in (2, 3, 4, 5, 6)],
    ),
    "ragged edges": (
        NODES,
        "source,target\na,b\nb\nb,c,3\nc,a\n",
        [("edges.csv", 3, "has 1 cells"), ("edges.csv", 4, "has 3 cells")],
    ),
    "an unknown node after a ragged row": (
        NODES,
        "source,target\na,b\nb\nb,zoe\n",
        [("edges.csv", 3, "has 1 cells"), ("edges.csv", 4, "'zoe'")],
    ),
    "an open quotation": (NODES, 'source,target\na,b\n"b,c\n', [("edges.csv", 3, "not closed")]),
    "a quotation open to the end": (
        'id,f,label\na,1,x\nb,2,y\nc,3,"x\nd,4,y\ng,1,x\n',
        "a,b\n",
        [("nodes.csv", 4, "a quotation mark is opened and not closed")],
    ),
    "a quotation open over many rows": (
        'id,f,label\na,1,"x\n' + "b,2,y\n" * 30_000,
        "a,b\n",
        [("nodes.csv", 2, "as if a quotation mark were opened and not closed")],
    ),
    "text after a quotation": (
        'id,f,label\na,1,"x\nb,2,"y"\nc,3,x\n',
        "a,b\n",
        [("nodes.csv", 2, "text follows a closing quotation mark")],
    ),
    "rows within a quotation": (
        'id,f,label\na,1,"x\nb,2,y"\nc,3,x\nd,4,y\n',
        "c,d\n",
        [("nodes.csv", 2, "'label' has a line break (got 'x\\nb,2,y')")],
    ),
    "a cell over two lines": (
        'id,f,label\n"a\nb",1,x\nc,many,y\nd,1,y\n',
        "c,d\n",
        [
            ("nodes.csv", 2, "'id' has a line break"),
            ("nodes.csv", 4, "feature 'f' is not a number (got 'many')"),
        ],
    ),
    "a wrong row over two lines": (
        'id,f,label\n\na,"many\nmore",x\nc,1,y\nd,1,y\n',
        "c,d\n",
        [("nodes.csv", 3, "feature 'f' is not a number")],
    ),
    "other spellings of numbers": (
        "id,f,label\n1,1,x\n2,2,y\n3.0,3,y\n",
        "source,target\n1.0,2\n2.5,2\n3,2\n",
        [
            ("edges.csv", 2, "source '1.0' is not among the nodes, but '1' is: write identifiers"),
            ("edges.csv", 3, "source '2.5' is not among the nodes"),
            ("edges.csv", 4, "source '3' is not among the nodes, but '3.0' is"),
        ],
    ),
    "a decimal comma": (
        "id;f;g;label\na;1,5;1;x\nb;2,5;2;y\nc;3,5;3,5;y\n",
        "source;target;weight\na;b;0,5\n",
        [
            ("nodes.csv", 2, "column 'f' holds text (such as '1,5')"),
            ("nodes.csv", 4, "feature 'g' is not a number (got '3,5'): write a decimal point"),
            ("edges.csv", 2, "written with a decimal point (got '0,5')"),
        ],
    ),
    "names for labels": (
        "id,f,label\n" + "".join(f"{n},1,name{n}\n" for n in range(21)),
        "0,1\n",
        [("nodes.csv", None, "each of 21 labels occurs at one node only")],
    ),
    "two likely labels": (
        "id,f,y,target\na,1,x,x\n",
        "a,a\n",
        [("nodes.csv", None, "more than one column of classes")],
    ),
    "four columns without names": (NODES, "a,b,1,1\n", [("edges.csv", 1, "one column 'source'")]),
    "two sources": (NODES, "source,from,target\na,a,b\n", [("edges.csv", 1, "one column")]),
    "twice the same node": (
        "id,f,label\na,1,x\nb,2,y\na,3,x\n",
        "a,b\n",
        [("nodes.csv", 4, "node 'a' occurs already on line 2")],
    ),
    "a node without name": ("id,f,label\na,1,x\n,2,y\n", "a,a\n", [("nodes.csv", 3, "identifier")]),
    "cells": (
        "id,f,g,label\na,1,2,x\nb,nan,2,y\nc,inf,,y\nd,1e39,q,x\n",
        "a,b\n",
        [
            ("nodes.csv", 3, "'f' is not finite in 32 bits (got 'nan')"),
            ("nodes.csv", 4, "'g' is missing"),
            ("nodes.csv", 4, "'f' is not finite"),
            ("nodes.csv", 5, "'g' is not a number (got 'q')"),
            ("nodes.csv", 5, "'f' is not finite"),
        ],
    ),
    "a column of text": (
        "id,f,colour,label\na,1,red,x\nb,2,blue,y\n",
        "a,b\n",
        [("nodes.csv", 2, "column 'colour' holds text (such as 'red')")],
    ),
    "no features": ("id,label\na,x\nb,y\n", "a,b\n", [("nodes.csv", None, "no feature columns")]),
    "no identifiers": ("f,label\n1,x\n", "a,b\n", [("nodes.csv", None, "column of identifiers")]),
    "no rows": ("id,f,label\n", "a,b\n", [("nodes.csv", None, "has no nodes")]),
    "empty": ("", "a,b\n", [("nodes.csv", None, "is empty")]),
    "blank": (" \n\n", "a,b\n", [("nodes.csv", None, "is empty")]),
    "empty edges": (NODES, "", [("edges.csv", None, "is empty")]),
    "a column twice": ("id,f,f,label\na,1,2,x\n", "a,a\n", [("nodes.csv", 1, "'f' occurs twice")]),
    "no column name": ("id,,label\na,1,x\n", "a,a\n", [("nodes.csv", 1, "has no name")]),
    "one class": ("id,f,label\na,1,x\nb,2,x\n", "a,b\n", [("nodes.csv", None, "one class 'x'")]),
    "split": (
        "id,f,label,split\na,1,x,train\nb,1,y,teste\nc,1,y,train|test\n",
        "a,b\n",
        [("nodes.csv", 3, "unknown split 'teste'"), ("nodes.csv", 4, "unknown split 'train|test'")],
    ),
    "nothing to train on": (
        "id,f,label,split\na,1,x,val\nb,1,y,test\n",
        "a,b\n",
        [("nodes.csv", None, "trains on no labelled node")],
    ),
    "labels of two kinds": (
        "id,f,label,label_b\na,1,x,1\n",
        "a,a\n",
        [("nodes.csv", None, "more than one column of classes")],
    ),
    "label columns": (
        "id,f,label_a,label_b\na,1,1,2\nb,1,,1\nc,1,x,0\n",
        "a,b\n",
        [
            ("nodes.csv", 2, "'label_b' must be 0 or 1 (got '2')"),
            ("nodes.csv", 3, "some of the labels in this row are missing"),
            ("nodes.csv", 4, "'label_a' must be 0 or 1 (got 'x')"),
        ],
    ),
    "both files": (
        "id,f,label\na,q,x\nb,2,y\nc,3,y\n",
        "source,target\na,zoe\n",
        [("nodes.csv", 2, "not a number"), ("edges.csv", 2, "'zoe'")],
    ),
}


def errors(path):
    return [problem for problem in check(path) if problem.severity == "error"]


@pytest.mark.parametrize("case", WRONG)
def test_every_error_is_found_with_its_line(case, tmp_path):
    nodes, edges, want = WRONG[case]
    path = graphs.csv_folder(tmp_path, nodes, edges)
    found = errors(path)
    assert [(problem.file, problem.line) for problem in found] == [place[:2] for place in want]
    for problem, (_, _, message) in zip(found, want, strict=True):
        assert message in problem.message
        assert problem.advice
    with pytest.raises(OwnDataError):
        read_own(path)


ENCODED = {
    "Latin-1": ("id,f,label\na,1,café\nb,1,y\nc,é,x\n".encode("latin-1"), [2, 4], "not UTF-8"),
    "UTF-16": (NODES.encode("utf-16"), [1], "UTF-16"),
    "zero byte": (b"id,f,label\na,1,x\n\0", [3], "zero byte"),
}


@pytest.mark.parametrize("case", ENCODED)
def test_wrong_encodings(case, tmp_path):
    nodes, lines, message = ENCODED[case]
    found = errors(graphs.csv_folder(tmp_path, nodes, EDGES))
    found = [problem for problem in found if problem.file == "nodes.csv"][: len(lines)]
    assert [problem.line for problem in found] == lines
    assert all(message in problem.message for problem in found)


NOTES = {
    "self-loop": (NODES, "source,target\na,b\nb,b\nb,c\n", 3, "1 self-loop kept"),
    "repeated": (NODES, "source,target\na,b\nb,c\na,b\na,b\n", 4, "2 repeated edges merged"),
    "two weights": (NODES, "source,target,weight\na,b,1\nb,c,1\nb,a,2\n", 4, "another weight"),
    "alone": (NODES, "source,target\na,b\nc,c\n", None, "1 node without edges ('c')"),
    "few": (NODES, EDGES, None, "2 classes have 20 or fewer labelled nodes ('x': 2, 'y': 1)"),
    "unused": (NODES, "source,target,since\na,b,1\nb,c,2\n", None, "'since' are not used"),
    "no labels": ("id,f\na,1\nb,1\nc,1\n", EDGES, None, "no node has a label"),
    "a class none": (NODES.replace("3,x", "3,none"), EDGES, None, "'none' is read as the name"),
    "a gap": (NODES.replace("3,x", "3,NaN"), EDGES, None, "'NaN' as label is read as none"),
    "names": (NODES.replace("3,x", "3,z"), EDGES, None, "each of 3 labels occurs at one node"),
    "y": (NODES.replace("label", "Y"), EDGES, None, "'Y' is read as the label"),
    "y and label": (NODES.replace("f,", "y,"), EDGES, None, "'y' next to 'label' is read as a "),
    "no label": (
        "id,f,label,split\na,1,x,train\nb,1,y,train\nc,1,,test\n",
        EDGES,
        None,
        "1 node of the split without label",
    ),
    "no validation": (
        "id,f,label,split\na,1,x,train\nb,1,y,train\nc,1,y,test\n",
        EDGES,
        None,
        "no validation nodes",
    ),
    "one-hot": (
        "id,f,label_x,label_y\na,1,1,0\nb,1,0,1\nc,1,,\n",
        EDGES,
        None,
        "exactly one of the labels",
    ),
}


@pytest.mark.parametrize("case", NOTES)
def test_notes_do_not_stop(case, tmp_path):
    nodes, edges, line, message = NOTES[case]
    path = graphs.csv_folder(tmp_path, nodes, edges)
    found = [problem for problem in check(path) if message in problem.message]
    assert [(problem.severity, problem.line) for problem in found] == [("note", line)]
    assert read_own(path).num_nodes == 3


def test_notes_come_with_the_data_set(tmp_path):
    dataset = read_own(graphs.csv_folder(tmp_path, NODES.replace("3,x", "3,NA"), EDGES))
    assert any("'NA' as label is read as none" in note for note in dataset.notes)


def test_masses_of_problems_are_counted(tmp_path):
    edges = "source,target\n" + "a,zoe\n" * 1000
    found = errors(graphs.csv_folder(tmp_path, NODES, edges))
    assert [problem.line for problem in found] == list(range(2, 23))
    assert found[-1].message == "and 980 more of this kind"


def test_parquet_names_rows(tmp_path):
    path = graphs.write(tmp_path / "mine", {"edges.csv": EDGES})
    table = pa.table({"id": ["a", "b", "c"], "f": [1.0, None, np.nan], "label": ["x", "y", "y"]})
    pyarrow.parquet.write_table(table, path / "nodes.parquet")
    found = errors(path)
    assert [problem.line for problem in found] == [None, None]
    assert "row 2: feature 'f' is missing" in found[0].message
    assert "row 3: feature 'f' is not finite" in found[1].message


def test_graphml_names_lines(tmp_path):
    path = graphs.graphml_file(tmp_path)
    text = path.read_text().replace("-4.0", "minus four").replace('target="c,c"', 'target="zoe"')
    path.write_text(text)
    lines = text.splitlines()
    node = next(n for n, line in enumerate(lines, 1) if 'id="bob"' in line)
    edge = next(n for n, line in enumerate(lines, 1) if 'target="zoe"' in line)
    assert [(problem.line, problem.message) for problem in errors(path)] == [
        (node, "feature 'age' is not a number (got 'minus four')"),
        (edge, "target 'zoe' is not among the nodes"),
    ]


def test_json_names_lines_and_items(tmp_path):
    path = graphs.write(tmp_path, {"a.json": '{"nodes": [],\n "edges": [}'}) / "a.json"
    assert [problem.line for problem in errors(path)] == [2]
    path.write_text('{"nodes": [{"id": 1, "x": [1, 2]}, {"f": 1}], "edges": []}')
    assert [problem.message for problem in errors(path)] == [
        "node 1: 'x' holds several values",
        "node 2 has no 'id'",
    ]


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    found = errors(graphs.csv_folder(tmp_path, NODES, "source,target\na,\x1b[2Jzoe\n"))
    assert "\x1b" not in str(found[0])


def test_a_problem_reads_like_a_compilers():
    problem = DataProblem("error", "edges.csv", 7, "no such node", "add it")
    assert str(problem) == "edges.csv:7: no such node; add it"
    assert str(DataProblem("note", "a.npz", None, "a", "b")) == "a.npz: a; b"


def test_gaps_in_many_columns_are_one_mass(tmp_path):
    names = ",".join(f"f{number}" for number in range(30))
    rows = "".join(f"{node},{',' * 29}\n" for node in range(3))
    found = errors(graphs.csv_folder(tmp_path, f"id,{names}\n{rows}", "0,1\n1,2\n"))
    assert [problem.line for problem in found] == [2] * 21
    assert found[-1].message == "and 70 more of this kind"


def test_the_error_survives_the_way_between_processes():
    error = OwnDataError([DataProblem("error", "edges.csv", 7, "no such node", "add it")])
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.problems) == (OwnDataError, str(error), error.problems)


def test_long_names_are_quoted_in_part():
    found = Diagnostics("nodes.csv")
    found.error("column '" + "x" * 10**6, "rename '" + "y" * 10**6)
    assert 1000 < len(str(found.problems[0])) < 1100

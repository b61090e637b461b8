import math
from itertools import product

import pytest

from meanmax.data.fetch.catalog import CATALOG
from meanmax.study.paper.result_tables import (
    Published,
    paper_counts,
    paper_heading,
    paper_value,
)
from meanmax.study.paper.result_tables import (
    table as make_table,
)
from meanmax.study.runs.row import json_safe
from tests.study.rows import cora, row

BACKBONES = ("gcn", "masked_gcn", "gat", "cat")
AGGREGATORS = ("none", "lp", "poly", "softmax")
DATA = ("cora", "citeseer", "pubmed", "photo", "computers")
OF_TABLE = {2: DATA, 3: DATA, 4: ("ppi",)}


@pytest.mark.parametrize(
    ("table", "backbone", "aggr", "data", "mean", "std"),
    [
        (2, "gcn", "none", "cora", 81.24, 1.68),
        (2, "gcn", "softmax", "pubmed", 81.5, 0.82),
        (2, "masked_gcn", "none", "computers", 76.06, 7.09),
        (2, "masked_gcn", "lp", "photo", 90.56, 1.19),
        (2, "gat", "poly", "citeseer", 71.56, 1.46),
        (2, "cat", "softmax", "computers", 82.9, 1.98),
        (3, "gcn", "poly", "photo", 92.06, 0.33),
        (3, "masked_gcn", "softmax", "citeseer", 69.96, 1.08),
        (3, "gat", "none", "cora", 82.55, 0.4),
        (3, "cat", "none", "pubmed", 77.85, 3.48),
        (4, "gcn", "none", "ppi", 97.25, 0.34),
        (4, "gcn", "lp", "ppi", 98.64, 0.01),
        (4, "gat", "softmax", "ppi", 98.54, 0.7),
        (4, "cat", "poly", "ppi", 98.44, 0.08),
    ],
)
def test_cells_as_printed(table, backbone, aggr, data, mean, std):
    assert paper_value(table, backbone, aggr, data) == Published(mean, std)


@pytest.mark.parametrize(
    ("table", "cells", "means", "stds"),
    [(2, 80, 6494.12, 128.99), (3, 80, 6475.51, 106.78), (4, 16, 1570.71, 4.52)],
)
def test_every_cell_is_there(table, cells, means, stds):
    found = [
        paper_value(table, *names) for names in product(BACKBONES, AGGREGATORS, OF_TABLE[table])
    ]
    assert len(found) == cells and None not in found
    # The sums of the printed figures: a slip in any one of them shows.
    assert math.isclose(sum(cell.mean for cell in found), means, abs_tol=1e-6)
    assert math.isclose(sum(cell.std for cell in found), stds, abs_tol=1e-6)


@pytest.mark.parametrize(
    "names",
    [
        (2, "sage", "lp", "cora"),
        (2, "gcn", "max", "cora"),
        (2, "gcn", "lp", "karate"),
        (2, "gcn", "lp", "ppi"),
        (4, "gcn", "lp", "cora"),
        (4, "gcn", "lp", "ppi-go"),
    ],
)
def test_what_the_paper_has_not(names):
    assert paper_value(*names) is None


@pytest.mark.parametrize("table", [0, 1, 5, "2"])
def test_other_tables_are_refused(table):
    with pytest.raises(ValueError, match=r"'table' must be one of 2, 3, 4 \(got .*paper_counts"):
        paper_value(table, "gcn", "lp", "cora")


def test_headings():
    assert paper_heading(2) == ("transductive node classification", "test accuracy (%)")
    assert paper_heading(3) == ("semi-supervised node clustering", "accuracy (%)")
    assert paper_heading(4) == ("inductive node classification", "micro-F1 (%)")


def test_table_1_is_what_the_catalogue_says():
    assert paper_counts("photo") == (7487, 119043, 745, 8)
    assert {name: paper_counts(name) for name in CATALOG} == {
        name: entry.paper for name, entry in CATALOG.items()
    }


def test_cells_stand_beside_the_papers():
    rows = cora("none", [80.0, 82.0, 84.0]) + cora("lp", [81.0, 82.0]) + cora("poly", [70.0])
    cells = {
        cell.aggr: cell for cell in make_table(rows, 2, data=["cora"], backbones=["gcn"]).cells
    }
    none = cells["none"]
    assert (none.mean, none.std, none.n, none.paper.mean) == (82.0, 2.0, 3, 81.24)
    assert none.mark == "at or above"
    assert (cells["lp"].mean, cells["lp"].mark) == (
        81.5,
        "within one std",
    )
    assert cells["poly"].mark == "below"
    assert (cells["softmax"].mark, cells["softmax"].n) == ("missing", 0)
    assert json_safe(cells["softmax"])["mean"] is None


def test_table_3_is_of_all_nodes():
    (cell, *_) = make_table(cora("none", [80.0]), 3, data=["cora"], backbones=["gcn"]).cells
    assert cell.mean == 81.0


def test_rows_with_other_settings_data_or_splits_are_not_mixed_in():
    rows = cora("none", [80.0, 80.0])
    rows += cora("none", [10.0], overrides={"lr": 0.5}, tag="lr")
    rows += cora("none", [20.0], data_hash="other", tag="data")
    rows += cora("none", [30.0] * 5, split="random", tag="split")
    tabled = make_table(rows, 2, data=["cora"], backbones=["gcn"])
    assert (tabled.cells[0].mean, tabled.cells[0].n) == (80.0, 2)
    assert len(tabled.notes) == 1


def test_failed_runs_are_counted_and_not_averaged():
    rows = cora("none", [80.0]) + [row("none", 1, status="diverged", error="nan", metrics={})]
    (cell, *_) = make_table(rows, 2, data=["cora"], backbones=["gcn"]).cells
    assert (cell.mean, cell.n, cell.failed) == (80.0, 1, 1)


def test_rows_of_one_seed_on_other_nodes_are_not_paired():
    rows = cora("none", [80.0] * 6) + cora("softmax", [81.0] * 6)
    rows += [row("lp", seed, 90.0, split_hash=f"other{seed}") for seed in range(5)]
    tabled = make_table(rows, 2, data=["cora"], backbones=["gcn"])
    assert {cell.aggr: cell.n for cell in tabled.cells}["lp"] == 0
    assert any("other splits of the same name" in note for note in tabled.notes)


def test_rebuilt_labels_are_not_marked_against_the_paper():
    rows = [row("none", 0, 99.0, data="ppi-go", split="inductive")]
    tabled = make_table(rows, 4, data=["ppi-go"], backbones=["gcn"])
    assert (tabled.cells[0].mark, tabled.cells[0].paper.mean) == ("no paper value", 97.25)
    assert "rebuilt labels" in tabled.notes[0]

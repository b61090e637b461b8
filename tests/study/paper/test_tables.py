from __future__ import annotations

import math

import pytest

from meanmax.study.paper.ablation import ablation, variants
from meanmax.study.paper.claims import claims, summary
from meanmax.study.paper.tables import SETS, table
from meanmax.study.runs.row import json_safe
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.verdict import CAVEAT, ONE_SPLIT
from tests.study.rows import row


def cora(aggr, scores, **facts):
    return [row(aggr, seed, score, **facts) for seed, score in enumerate(scores)]


def test_cells_stand_beside_the_papers():
    rows = cora("none", [80.0, 82.0, 84.0]) + cora("lp", [81.0, 82.0]) + cora("poly", [70.0])
    cells = {cell.aggr: cell for cell in table(rows, 2, data=["cora"], backbones=["gcn"]).cells}
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
    (cell, *_) = table(cora("none", [80.0]), 3, data=["cora"], backbones=["gcn"]).cells
    assert cell.mean == 81.0


def test_rows_with_other_settings_data_or_splits_are_not_mixed_in():
    rows = cora("none", [80.0, 80.0])
    rows += cora("none", [10.0], overrides={"lr": 0.5}, tag="lr")
    rows += cora("none", [20.0], data_hash="other", tag="data")
    rows += cora("none", [30.0] * 5, split="random", tag="split")
    tabled = table(rows, 2, data=["cora"], backbones=["gcn"])
    assert (tabled.cells[0].mean, tabled.cells[0].n) == (80.0, 2)
    assert len(tabled.notes) == 1


def test_failed_runs_are_counted_and_not_averaged():
    rows = cora("none", [80.0]) + [row("none", 1, status="diverged", error="nan", metrics={})]
    (cell, *_) = table(rows, 2, data=["cora"], backbones=["gcn"]).cells
    assert (cell.mean, cell.n, cell.failed) == (80.0, 1, 1)


def test_claims_are_paired_and_corrected_over_the_table():
    base = [80.0, 81.0, 82.0, 83.0, 84.0, 85.0, 86.0, 87.0]
    rows = cora("none", base)
    rows += cora("lp", [score + 1 + 0.1 * i for i, score in enumerate(base)])
    rows += cora("softmax", [score + (-1) ** i for i, score in enumerate(base)])
    found = claims(2, table(rows, 2, data=["cora"], backbones=["gcn"]).comparisons)
    by_aggr = {claim.aggr: claim for claim in found}
    assert by_aggr["lp"].paired.difference == pytest.approx(1.35)
    assert by_aggr["lp"].adjusted_p == pytest.approx(2 * 2 / 2**8)
    assert by_aggr["lp"].paper == pytest.approx(82.57 - 81.24)
    assert (by_aggr["lp"].holds, by_aggr["softmax"].holds) == ("better", "undecided")
    assert "better in 1, clearly worse in 0, and undecided in 1" in summary(found)


def test_what_too_few_splits_leave_open_is_not_called_undecided():
    base = [80.0, 81.0, 82.0, 83.0, 84.0]
    rows = cora("none", base) + cora("lp", [score + 2 + 0.1 * i for i, score in enumerate(base)])
    few = claims(2, table(rows, 2, data=["cora"], backbones=["gcn"]).comparisons)
    assert [claim.holds for claim in few] == ["too few"], "2 / 2^5 is above 0.05"
    said = summary(few)
    assert "none has enough splits to distinguish them." in said
    assert "chance" not in said and CAVEAT not in said

    rows += [row("none", seed, 70.0, data="citeseer") for seed in range(8)]
    rows += [row("lp", seed, 71.0 + seed, data="citeseer") for seed in range(8)]
    both = claims(2, table(rows, 2, data=["cora", "citeseer"], backbones=["gcn"]).comparisons)
    assert sorted(claim.holds for claim in both) == ["better", "too few"]
    assert "of 1 such family 0.1 would look different by chance); 1 has too few" in summary(both)
    assert summary(both) == f"{summary(both, caveat=False)} {CAVEAT}"


def test_the_paper_s_own_graphs_are_named_where_ours_are_others():
    rows = [row(aggr, 0, 70.0, data="ppi-go", split="inductive") for aggr in ("none", "lp")]
    found = claims(4, table(rows, 4, data=["ppi-go"], backbones=["gcn"]).comparisons)
    assert "in the paper on its own PPI graphs it is in 1." in summary(found)


def test_seeds_on_one_split_are_called_seeds():
    rows = [
        row(aggr, seed, 70.0 + seed * (aggr == "lp"), split_hash="one")
        for aggr in ("none", "lp")
        for seed in range(3)
    ]
    said = summary(claims(2, table(rows, 2, data=["cora"], backbones=["gcn"]).comparisons))
    assert "paired over seeds, none has enough seeds" in said
    assert said.endswith(ONE_SPLIT) and CAVEAT not in said


def test_a_whole_table_can_find_differences():
    rows = []
    for data in SETS:
        split = "amazon" if data in ("photo", "computers") else "citation"
        for backbone in ("gcn", "masked_gcn", "gat", "cat"):
            for aggr, gain in (("none", 0), ("lp", 5), ("poly", 5), ("softmax", -5)):
                for seed in range(10):
                    score = 80 + seed + gain * (1 + 0.01 * seed)
                    rows.append(row(aggr, seed, score, data=data, backbone=backbone, split=split))
    found = claims(2, table(rows, 2, data=SETS).comparisons)
    assert len(found) == 60
    assert "clearly better in 40, clearly worse in 20" in summary(found)
    assert "of 20 such families 1.0 would look different by chance" in summary(found)


def test_rows_of_one_seed_on_other_nodes_are_not_paired():
    rows = cora("none", [80.0] * 6) + cora("softmax", [81.0] * 6)
    rows += [row("lp", seed, 90.0, split_hash=f"other{seed}") for seed in range(5)]
    tabled = table(rows, 2, data=["cora"], backbones=["gcn"])
    assert {cell.aggr: cell.n for cell in tabled.cells}["lp"] == 0
    assert any("other splits of the same name" in note for note in tabled.notes)


def test_rebuilt_labels_are_not_marked_against_the_paper():
    rows = [row("none", 0, 99.0, data="ppi-go", split="inductive")]
    tabled = table(rows, 4, data=["ppi-go"], backbones=["gcn"])
    assert (tabled.cells[0].mark, tabled.cells[0].paper.mean) == ("no paper value", 97.25)
    assert "rebuilt labels" in tabled.notes[0]


def test_ablation_variants_change_what_they_say():
    listed = variants()
    assert {variant.aggr for variant in listed} == {"lp", "poly", "softmax"}
    settings = [
        tuple(settings_for("published", "gcn", v.aggr, "cora", v.overrides).items()) for v in listed
    ]
    assert len(set(settings)) == len(settings)
    for variant in listed:
        known = settings_for("published", "gcn", variant.aggr, "cora", variant.overrides)
        assert variant.overrides.items() <= known.items(), variant


def test_ablation_is_against_the_published_baseline():
    rows = cora("none", [80.0, 82.0]) + cora("lp", [81.0, 83.5])
    rows += cora("lp", [70.0, 71.0], overrides={"nonlinear": "all"}, tag="all")
    listed = [effect for effect in ablation(rows, ["cora"]).effects if effect.variant is not None]
    found = {(effect.variant.aggr, effect.variant.name): effect for effect in listed}
    assert found["lp", "as published"].difference == pytest.approx(1.25)
    assert found["lp", "in all layers"].difference == pytest.approx(-10.5)
    assert found["poly", "as published"].n == 0
    assert math.isnan(found["poly", "as published"].difference)

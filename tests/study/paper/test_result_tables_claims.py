import pytest

from meanmax.study.paper.result_tables import SETS, claims, summary, table
from meanmax.study.stats.comparison import CAVEAT, ONE_SPLIT
from tests.study.rows import cora, row


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

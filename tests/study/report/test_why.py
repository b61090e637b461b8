"""What predicts a gain: facts of data sets, points and rank correlations."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from meanmax.data import fingerprint, load
from meanmax.study.report.study import AUTHORS, Study
from meanmax.study.report.why import (
    ENOUGH,
    FILE,
    PREDICTORS,
    Facts,
    correlations,
    missing_facts,
    points,
    read_facts,
    spearman,
)
from meanmax.study.store.store import StoreError
from tests.study.rows import searched

FACTS = Facts("wine", "d-wine", "balanced", "node", 14.0, 0.9, 1.0, 0.29)


def several(count, **facts):
    """Data sets with degrees 2, 4, 8, … and gains of 1, 2, 3, … points."""
    rows, known = [], {}
    for k in range(count):
        data = f"own{k}"
        rows += searched("none", [50.0] * 10, data=data)
        rows += searched("lp", [51.0 + k] * 10, data=data, maxness={"layers.0": k / 20})
        one = dataclasses.replace(
            FACTS, data=data, data_hash=f"d-{data}", mean_degree=2.0 ** (k + 1), **facts
        )
        known[one.data_hash, one.split] = one
    return Study.of(rows), known


def test_facts_are_those_of_the_data_and_the_split():
    club = load("karate")
    found = Facts.of(club)
    assert (found.data, found.data_hash) == ("karate", fingerprint(club)[:20])
    assert (found.split, found.level) == ("balanced", "node")
    assert found.mean_degree == pytest.approx(2 * 78 / 34)
    assert found.density == pytest.approx(1 / 34)
    assert found.label_rate == 8 / 34  # of 34 members, two of each of four communities train
    assert Facts.of(club, "random").split == "random"


def test_facts_of_whole_graphs_have_no_homophily():
    found = Facts.of(load("digits-graphs"))
    assert (found.level, found.homophily, found.split) == ("graph", None, "folds")
    assert found.label_rate == pytest.approx(0.8, abs=0.001)


def test_facts_are_read_from_beside_the_rows(tmp_path):
    rows, line = tmp_path / "rows.jsonl", json.dumps(dataclasses.asdict(FACTS))
    assert read_facts(rows) == read_facts(tmp_path) == {}
    newer = json.dumps({**json.loads(line), "mean_degree": 3.0})
    (tmp_path / FILE).write_text(f"{line}\n{newer}\n", encoding="utf-8")
    assert read_facts(rows)["d-wine", "balanced"].mean_degree == 3.0
    assert read_facts(tmp_path) == read_facts(rows)


UNHASHABLE = json.dumps({**dataclasses.asdict(FACTS), "data_hash": []})


@pytest.mark.parametrize("line", ["{", "[]", "\xff", '{"data": "wine"}', UNHASHABLE])
def test_damaged_facts_name_the_line(tmp_path, line):
    content = json.dumps(dataclasses.asdict(FACTS)) + f"\n{line}\n"
    (tmp_path / FILE).write_text(content, "latin-1")
    with pytest.raises(StoreError, match=r"datasets.jsonl:2 is damaged .*meanmax data facts"):
        read_facts(tmp_path)


def test_a_task_is_a_point_with_the_facts_of_its_data():
    study, facts = several(2)
    first, second = points(study, facts)
    assert (first.difference, second.difference) == (1.0, 2.0)
    assert (first.aggr, first.level, first.n) == ("lp", "node", 10)
    assert second.values == {
        "mean_degree": 4.0,
        "homophily": 0.9,
        "density": 1.0,
        "label_rate": 0.29,
        "level": 0.0,
        "maxness": 0.05,
    }
    assert points(study, {}) == []
    for fact in ("data_hash", "split"):
        other = dataclasses.replace(FACTS, **{fact: "another"})
        assert points(study, {(other.data_hash, other.split): other}) == []


def test_the_pool_of_a_comparison_does_not_change_its_scheme():
    rows = searched("none", [50.0] * 10, split="balanced, pool")
    rows += searched("lp", [51.0] * 10, split="balanced, pool")
    assert len(points(Study.of(rows), {("d-wine", "balanced"): FACTS})) == 1


def test_missing_facts_name_the_command():
    rows = [row for aggr in ("none", "lp") for row in searched(aggr, [50.0] * 10)]
    rows += [
        row for a in ("none", "lp") for row in searched(a, [5.0] * 9, data="cora", split=AUTHORS)
    ]
    study = Study.of(rows)
    assert missing_facts(study, {("d-wine", "balanced"): FACTS}) == [
        "meanmax data facts cora --split file:FOLDER-OF/citation_splits.npz >> datasets.jsonl"
    ]
    assert "meanmax data facts wine --split balanced >> datasets.jsonl" in missing_facts(study, {})


def test_correlations_are_spearmans_over_data_sets():
    study, facts = several(ENOUGH)
    found = {one.predictor: one for one in correlations(points(study, facts))}
    assert list(found) == list(PREDICTORS)
    degree = found["mean_degree"]
    assert (degree.n, degree.rho, degree.judgement) == (ENOUGH, 1.0, "related")
    assert math.isnan(found["homophily"].rho), "equal for all"
    assert found["homophily"].judgement == "no clear relation"
    assert degree.adjusted_p == pytest.approx(2 * degree.p)  # with maxness, two can be tested


def test_nothing_is_claimed_from_few_data_sets():
    study, facts = several(ENOUGH - 1)
    found = correlations(points(study, facts))
    assert {one.judgement for one in found} == {"too few data sets"}
    assert found[0].rho == 1.0


def test_tasks_on_the_same_data_are_one_value():
    rows = searched("none", [50.0] * 10) + searched("lp", [51.0] * 10)
    rows += searched("none", [50.0] * 10, backbone="sage")
    rows += searched("lp", [53.0] * 10, backbone="sage")
    listed = points(Study.of(rows), {("d-wine", "balanced"): FACTS})
    assert len(listed) == 2
    assert {one.n for one in correlations(listed) if one.predictor != "maxness"} == {1}


def test_the_correlation_and_its_p_agree_with_scipy_and_with_all_orders():
    x, y = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0], [2.0, 7.0, 1.0, 8.0, 2.5, 8.5]
    rho, p = spearman(x, y)
    assert rho == pytest.approx(spearmanr(x, y).statistic)
    every = np.array([spearmanr(order, y).statistic for order in itertools.permutations(x)])
    tails = [(every <= rho + 1e-9).mean(), (every >= rho - 1e-9).mean()]
    assert p == pytest.approx(min(1.0, 2 * min(tails)))
    assert all(map(math.isnan, spearman([1.0, 2.0], [1.0, 2.0])))

import dataclasses
from pathlib import Path

import pytest

from meanmax.study.runs.row import COLUMNS, NESTED, TYPES, Row, Run, RunSpec
from meanmax.study.store.exports import read_rows
from tests.study.rows import row

STORED = Path(__file__).parents[3] / "results" / "rows.jsonl"


def test_columns_are_the_facts_of_a_row_in_the_order_of_exports():
    assert COLUMNS == (
        *("key", "attempt", "status", "error", "data", "data_hash", "split", "split_seed"),
        *("split_hash", "seed", "backbone", "aggr", "settings_name", "best_epoch", "epochs"),
        *("seconds", "threads", "alone", "cpu", "commit", "finished"),
        *("settings", "metrics", "learned", "maxness", "versions"),
    )
    assert set(COLUMNS) == {fact.name for fact in dataclasses.fields(Row)}
    assert NESTED == COLUMNS[-5:]
    assert (TYPES["seconds"], TYPES["commit"]) == ((float, int), (str, type(None)))
    assert (TYPES["status"], TYPES["alone"], TYPES["maxness"]) == ((str,), (bool,), (dict,))


def test_run_keys_are_those_of_stored_rows():
    facts = [fact.name for fact in dataclasses.fields(Run)]
    rows = read_rows(STORED)
    assert len(rows) > 1000
    for stored in rows:
        assert RunSpec(**{name: getattr(stored, name) for name in facts}).key == stored.key


def test_a_key_depends_on_all_but_names():
    spec = RunSpec("cora", "d0", "random", 3, "s0", 3, "gcn", "lp", {"lr": 0.1})
    named = {"data": "other", "split": "file:a.npz", "split_seed": 0}
    assert dataclasses.replace(spec, **named).key == spec.key
    changed = [{"data_hash": "d1"}, {"split_hash": "s1"}, {"seed": 4}, {"backbone": "gat"}]
    changed += [{"aggr": "poly"}, {"settings": {"lr": 0.2}}]
    keys = {dataclasses.replace(spec, **one).key for one in changed}
    assert len(keys) == 6 and spec.key not in keys


def test_flat_rows_come_back():
    one = row("lp", 3, learned={"layers.0.p": [1.5]}, maxness={"layers.0": None}, commit="abc")
    flat = one.to_flat()
    assert tuple(flat) == COLUMNS
    assert flat["learned"] == '{"layers.0.p": [1.5]}'
    assert Row.from_flat(flat) == Row.from_dict(vars(one)) == one


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"colour": "red"}, "a row has unknown facts .colour"),
        ({"threads": 1.5}, "'threads' is 1.5, not int"),
        ({"commit": 7}, "'commit' is 7, not str or NoneType"),
        ({"status": "done"}, "'status' is 'done', not one of ok, diverged, failed"),
        ({"metrics": {"test_score": True}}, "metric 'test_score' is True, not a number"),
    ],
)
def test_wrong_facts_are_named(facts, said):
    with pytest.raises(ValueError, match=said):
        Row.from_dict(vars(row()) | facts)
    short = {name: value for name, value in vars(row()).items() if name != "seed"}
    with pytest.raises(ValueError, match="a row has no 'seed'"):
        Row.from_dict(short)

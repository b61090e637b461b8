import errno
import json
import os
import random

import numpy as np
import pandas
import pytest

from meanmax.study.runs.row import Result
from meanmax.study.store.exports import (
    export_curves,
    export_rows,
    merge_source,
    read_curves,
    read_rows,
)
from meanmax.study.store.store import Store, StoreError

from ..made_runs import failed, result, row

ROWS = [
    row(2, aggr="lp", metrics={"test_score": 1 / 3, "kmeans_ari": -0.1}),
    row(10, data="cora", commit="abc-dirty", alone=False),
    row(1),
    failed(3, error='ValueError: "quoted", and\nin two lines – ∞'),
    row(4, status="diverged", error="the loss became nan", metrics={}, attempt=2),
]
SORTED = [ROWS[1], ROWS[0], ROWS[2], ROWS[3], ROWS[4]]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("rows", [ROWS, []])
def test_rows_come_back_sorted(tmp_path, suffix, rows):
    path = tmp_path / "new" / f"rows{suffix}"
    export_rows(rows, path)
    assert read_rows(path) == (SORTED if rows else [])
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_equal_rows_give_equal_files(tmp_path):
    mixed = random.Random(0).sample(ROWS, len(ROWS))
    export_rows(ROWS, tmp_path / "a.jsonl")
    export_rows(iter(mixed), tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == [one.key for one in SORTED]


def test_tables_for_pandas(tmp_path):
    export_rows(ROWS, tmp_path / "rows.parquet")
    export_rows(ROWS, tmp_path / "rows.csv")
    parquet = pandas.read_parquet(tmp_path / "rows.parquet")
    text = pandas.read_csv(tmp_path / "rows.csv", dtype={"key": str})
    for table in (parquet, text):
        scores = table["metric_test_score"].to_numpy()
        assert scores[:3].tolist() == [70 + 10 / 3, 1 / 3, 70 + 1 / 3]
        assert np.isnan(scores[3:]).all()
        assert table["metric_kmeans_ari"].count() == 1
        assert table["alone"].tolist() == [False, True, True, True, True]
        assert table["error"][3] == ROWS[3].error
        assert json.loads(table["settings"][0]) == ROWS[1].settings
        assert "metrics" not in table
    assert parquet["metric_val_score"].dtype == "float64"
    assert parquet["split_seed"].dtype == "int64"


def test_a_store_is_read_as_well(tmp_path):
    store = Store(tmp_path)
    store.add(Result(row(5), {}))
    assert read_rows(tmp_path) == [row(5)]


GOOD = row(1).to_json()


@pytest.mark.parametrize(
    "line, said",
    [
        ("{", "Expecting property name"),
        ("[1]", "a row is a JSON object, not list"),
        (GOOD.replace('"seed": 1', '"seed": "1"'), "'seed' is '1', not int"),
        (GOOD.replace('"alone": true', '"alone": 1'), "'alone' is 1, not bool"),
        (GOOD.replace('"key"', '"name"'), "unknown facts .name"),
        (GOOD.replace('"data": "karate", ', ""), "a row has no 'data'"),
        (GOOD.replace('"seconds": 1.5', '"seconds": NaN'), "NaN is not a JSON number"),
        (GOOD[:-20], "delimiter|Expecting|Unterminated"),
        (GOOD.replace("karate", "\udcff"), "codec can't decode"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, said):
    path = tmp_path / "rows.jsonl"
    text = f"{row(0).to_json()}\n\n{line}\n{row(2).to_json()}\n"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match=rf"rows.jsonl:3 is damaged .*({said})"):
        read_rows(path)


def test_damaged_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    export_rows(ROWS, path)
    content = path.read_bytes()
    for damaged in (content[:-30], b"", b"PAR1 but no more"):
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match="rows.parquet is damaged .* export it again"):
            read_rows(path)
    pandas.DataFrame({"key": ["a"]}).to_parquet(path)
    with pytest.raises(StoreError, match="rows.parquet, row 1 is damaged .*has no 'status'"):
        read_rows(path)


def test_what_cannot_be_read_or_written(tmp_path):
    (tmp_path / "rows.csv").touch()
    with pytest.raises(StoreError, match=r"read from .jsonl or .parquet files and from folders"):
        read_rows(tmp_path / "rows.csv")
    with pytest.raises(StoreError, match="there is no file or folder .*none"):
        read_rows(tmp_path / "none.jsonl")
    with pytest.raises(StoreError, match=r"written to .jsonl, .parquet or .csv files .got 'rows"):
        export_rows(ROWS, "rows.xlsx")
    with pytest.raises(StoreError, match="there is no store of runs in"):
        read_rows(tmp_path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "rows.csv"])
def test_a_full_disk_leaves_the_old_file(tmp_path, name, monkeypatch):
    path = tmp_path / name
    export_rows(ROWS[:1], path)
    before = path.read_bytes()

    def no_room(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(StoreError, match=f"{name}: No space left on device: make room"):
        export_rows(ROWS, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_curves(tmp_path):
    store = Store(tmp_path / "runs")
    rows = [store.add(result(number)) for number in (3, 0, 1)]
    del (unvalidated := result(2)).artefact["val_loss"]
    unvalidated.artefact["val_loss"] = np.zeros(0, np.float32)
    rows += [store.add(unvalidated), store.add(Result(failed(4), {}))]
    path = tmp_path / "curves.parquet"
    assert export_curves(store, rows, path) == 4

    curves = read_curves(path)
    assert list(curves) == [row(number).key for number in range(4)]
    assert curves[row(3).key]["epoch"].tolist() == [0, 1, 2]
    assert curves[row(3).key]["train_loss"].tolist() == [3, 4, 5]
    assert curves[row(3).key]["val_score"].tolist() == [0.75, 1, 1.25]
    assert np.isnan(curves[row(2).key]["val_loss"]).all()
    assert {array.dtype.name for array in curves[row(0).key].values()} == {"int32", "float32"}
    table = pandas.read_parquet(path)
    assert list(table) == ["key", "epoch", "train_loss", "val_loss", "val_score"]
    assert len(table) == 12

    assert export_curves(store, [], path) == 0
    assert read_curves(path) == {}
    path.write_bytes(b"nothing")
    with pytest.raises(StoreError, match="curves.parquet is damaged"):
        read_curves(path)
    with pytest.raises(StoreError, match=r"to a .parquet file .got '.*curves.csv'"):
        export_curves(store, rows, tmp_path / "curves.csv")


def test_curves_of_runs_without_artefacts_are_kept(tmp_path):
    path = tmp_path / "curves.parquet"
    with_artefacts, rows_alone = Store(tmp_path / "first"), Store(tmp_path / "second")
    curve = np.arange(3, dtype=np.float32)
    curves = {"train_loss": curve, "val_loss": curve, "val_score": curve}
    rows = [with_artefacts.add(Result(row(number), curves)) for number in range(2)]
    assert export_curves(with_artefacts, rows, path) == 2
    before = read_curves(path)
    later = rows_alone.add(Result(row(2), curves))
    assert export_curves(rows_alone, [rows[1], later], path) == 2
    after = read_curves(path)
    assert list(after) == [rows[1].key, later.key]
    assert np.array_equal(after[rows[1].key]["train_loss"], before[rows[1].key]["train_loss"])
    with_artefacts.close()
    rows_alone.close()


@pytest.fixture
def source(tmp_path):
    source = Store(tmp_path / "source")
    for number in range(3):
        source.add(result(number))
    source.add(Result(failed(3), {}))
    return source


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "target")
    store.add(result(1, finished="here"))
    return store


def test_a_store_gives_rows_and_artefacts(source, store):
    assert merge_source(store, source.folder) == 3
    assert [one.split_seed for one in store.rows()] == [1, 0, 2, 3]
    assert store.rows()[0].finished == "here"
    assert store.artefact(row(2).key)["train_loss"].tolist() == [2, 3, 4]
    assert store.artefact(row(3).key) is None
    assert merge_source(store, source.folder) == 0


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_an_export_gives_rows(source, store, suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    export_rows(source.rows(), path)
    assert merge_source(store, path) == 3
    assert {one.key: one for one in store.rows()}[row(2).key] == row(2)
    assert store.artefact(row(2).key) is None


def test_all_or_nothing(source, store, tmp_path, monkeypatch):
    content = source.artefact_path(row(2).key).read_bytes()
    source.artefact_path(row(2).key).write_bytes(content[:-9])
    with pytest.raises(StoreError, match="damaged"):
        merge_source(store, source.folder)
    source.artefact_path(row(2).key).write_bytes(content)

    def no_room(self, rows):
        raise StoreError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "merge", no_room)
        with pytest.raises(StoreError, match="no room"):
            merge_source(store, source.folder)
    path = tmp_path / "rows.jsonl"
    export_rows(source.rows(), path)
    path.write_text(path.read_text()[:-9])
    with pytest.raises(StoreError, match="rows.jsonl:4 is damaged"):
        merge_source(store, path)

    assert [one.finished for one in store.rows()] == ["here"]
    kept = [file.name for file in (store.folder / "artefacts").rglob("*") if file.is_file()]
    assert kept == [f"{row(1).key}.zip"]


def test_formulas_in_csv_are_escaped_unless_raw(tmp_path):
    rows = [failed(3, error="=cmd()"), row(1, data="-1.5", backbone="@x")]
    for raw, cells in ((False, {"'=cmd()", "'@x", "-1.5"}), (True, {"=cmd()", "@x", "-1.5"})):
        export_rows(rows, tmp_path / "rows.csv", raw=raw)
        table = pandas.read_csv(tmp_path / "rows.csv", dtype=str, keep_default_na=False)
        assert cells <= set(table.to_numpy().ravel())

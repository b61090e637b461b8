import pytest

from meanmax.study.runs.row import Result
from meanmax.study.store.exports import export_rows, merge_source
from meanmax.study.store.store import Store, StoreError

from ..made_runs import failed, result, row


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

from meanmax.study.report.page import (
    write_report,
)
from meanmax.study.store.exports import export_rows

from .made_pages import fill, shown


def test_a_damaged_artefact_is_a_note(tmp_path):
    store = fill(tmp_path, splits=2)
    store.artefact_path(store.rows()[0].key).write_bytes(b"no archive")
    found = shown(tmp_path)
    assert len(found["problems"]) == 1 and "damaged" in found["problems"][0]
    assert found["sections"][0]["charts"][0]["lines"][0]["runs"] == 1


def test_an_export_gives_a_page_without_curves(tmp_path):
    store = fill(tmp_path / "store", splits=2)
    export_rows(store.rows(), tmp_path / "rows.jsonl")
    path = write_report(tmp_path / "rows.jsonl")
    assert path == tmp_path / "report.html"
    assert "Curves need the artefacts" in path.read_text("utf-8")

import json
from pathlib import Path

import pytest

from meanmax.data.fetch.catalog import CATALOG

from ..real import FOLDER, needs_planetoid

TABLES = Path(FOLDER).parent / "paper" / "tables.json"


def test_every_entry_says_what_it_is():
    for name, entry in CATALOG.items():
        assert entry.name == name
        assert entry.kind in ("benchmark", "embedded", "generated")
        assert bool(entry.files) == (entry.kind == "benchmark")
        assert all((entry.title, entry.licence.endswith("."), entry.source.endswith(".")))


@pytest.mark.skipif(not TABLES.is_file(), reason="no copy of the paper's tables")
def test_table_1():
    table = json.loads(TABLES.read_text())["table1"]
    carried = {name: entry.paper._asdict() for name, entry in CATALOG.items() if entry.paper}
    assert carried == table


@needs_planetoid
def test_located():
    assert CATALOG["cora"].located(FOLDER).is_dir()


def test_not_located(tmp_path, monkeypatch):
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *args, **options: tmp_path)
    monkeypatch.delenv("MEANMAX_DATA", raising=False)
    assert CATALOG["cora"].located() is None
    assert CATALOG["karate"].located() is None
    for file in CATALOG["cora"].alternative:
        (tmp_path / "data" / "planetoid").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "planetoid" / file.name).touch()
    assert CATALOG["cora"].located() == tmp_path / "data" / "planetoid"

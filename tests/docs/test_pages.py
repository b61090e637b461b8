"""The code on the pages of the site and in README.md runs, and its commands exist."""

import re
import shlex
from pathlib import Path

import pytest
from click import Context, Group

import meanmax
from meanmax.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN_TEST = {"own-graphs.md"}  # tests/data/readers/test_documentation.py


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def pages_with(language):
    found = [page for page in PAGES if page.name not in OWN_TEST and blocks(page, language)]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in found]


@pytest.mark.parametrize("page", pages_with("python"))
def test_programs_run_and_print_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page, "python"):
        if page.name == "index.md":
            break  # excerpts on cards
        if "accelerate" in block and not hasattr(meanmax, "accelerate"):
            pytest.skip("accelerate is not there yet")
        exec(compile(block, str(page), "exec"), names)  # the project's own text
        printed = capsys.readouterr().out.splitlines()
        said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert [line for line in printed if line in said] == said


def test_readme_fits_on_110_lines():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


def commands(page):
    for block in [*blocks(page, "bash"), *blocks(page, "console")]:
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(r"(?:^|-m )meanmax (.*)", line.removeprefix("$ "))
            if found:
                yield shlex.split(found[1], comments=True)


@pytest.mark.parametrize("page", pages_with("(?:bash|console)"))
def test_commands_and_their_options_exist(page):
    for words in commands(page):
        command, context = main, Context(main)
        while isinstance(command, Group):
            name, command, words = command.resolve_command(context, words)
            context = Context(command, info_name=name, parent=context)
        command.make_parser(context).parse_args(words)

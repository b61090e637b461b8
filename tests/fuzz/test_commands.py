"""Some random command lines, and that what a command must not do is found."""

from collections import Counter

import click
import pytest
from click.testing import CliRunner

from .campaign import generator, run_case
from .commands import case, commands, fault, options, run

CASES = 40


def test_random_commands_end_with_a_message():
    counts = Counter()
    found = [run_case("commands", case, 0, number, counts) for number in range(CASES)]
    failures = [f"{number}: {one.kind}\n{one.message}" for number, one in enumerate(found) if one]
    assert not failures, "\n".join(failures)
    assert counts.total() == CASES
    assert {name[-1] for name in counts} == {"0", "1", "2"}


def test_all_commands_are_drawn():
    names = {" ".join(path) for path, _ in commands()}
    assert {"train", "compare", "predict", "data pack", "results merge", "bench"} <= names
    drawn = [
        options(command, generator("commands", 0, 100 * number + time))
        for number, (_, command) in enumerate(commands())
        for time in range(60)
    ]
    given = {word for words in drawn for word in words if word.startswith("--")}
    every = {name for _, command in commands() for each in command.params for name in each.opts}
    missing = {name for name in every if name.startswith("--")} - given
    assert missing <= {"--engine", "--distributed", "--version"}


def test_commands_see_the_inputs():
    assert run(["data", "check", "mine"]).code == 0
    assert run(["data", "check", "colours"]).code == 1
    assert run(["data", "check", "colours", "--one-hot", "colour"]).code == 0
    assert run(["predict", "model.zip", "--data", "karate", "--out", "new.csv"]).code == 0
    assert run(["results", "show", "--store", "runs"]).code == 0


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("does", "kind"),
    [
        (lambda: _raise(KeyError("x")), "KeyError in"),
        (lambda: _raise(MemoryError()), "MemoryError in"),
        (lambda: click.get_current_context().exit(3), "exit code 3"),
        (lambda: click.echo("Traceback (most recent call last):"), "prints a traceback"),
        (lambda: _raise(click.ClickException("no")), "no sentence"),
    ],
)
def test_faults_are_found(does, kind):
    made = click.command("made")(does)
    assert kind in fault(["made"], CliRunner().invoke(made, [])).kind


def test_a_refusal_is_no_fault():
    made = click.command("made")(lambda: _raise(click.UsageError("leave out the option")))
    assert fault(["made"], CliRunner().invoke(made, [])) is None

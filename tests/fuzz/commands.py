"""Every command with random options, on good, odd and damaged inputs.

A command has to end with exit code 0, 1 or 2, with a message if it is not 0, and never with a
traceback. Commands run in this process, one job each, without a network. Not tried: ``--engine
ray``, ``data fetch`` and the unlisted commands. A case is one command line.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
import urllib.error
import warnings
import webbrowser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np
from click.testing import CliRunner, Result

from meanmax.cli.main import COMMANDS, main
from meanmax.study.settings.settings import KINDS

from . import parsers
from .campaign import Failure
from .mutations import NUMBERS, WORDS, choice, mutate
from .parsers import TooLong, limits
from .parsers_files import formats

SKIPPED = {("data", "fetch")}
GIVEN = 0.1  # how often an option is given
ODD = 0.05  # how often its value is an odd one
ALWAYS = {  # so that each takes little time; what is drawn may come before
    "compare": ("--jobs", "1", "--set", "epochs=2", "--splits", "2", "--budget", "2"),
    "tune": ("--jobs", "1", "--set", "epochs=2", "--splits", "1", "--budget", "2"),
    "reproduce": ("--no-run",),
    "train": ("--set", "epochs=2"),
    "bench": ("--nodes", "50", "--edges", "100", "--repeats", "1", "--budget", "0.001", "--quick"),
}
SLOW = {
    "compare": 0.02,
    "tune": 0.03,
    "bench": 0.01,
    "warmup": 0.005,
    "figure": 0.03,
    "report": 0.02,
}
SOURCES = [
    *("karate", "karate", "karate", "mine", "mine", "mine", "packed", "mine.npz", "numbers"),
    *("several.npz", "tables", "broken", "colours", "sbm:nodes=30,edges=60", "sbm:nodes=-1"),
    *("sbm:nodes=a", "sbm:nodes=30,edges=60,classes=99", "reach:", "sets:nodes=9", "sets:x=y"),
    *("nothing", "", ".", "/dev/null", "karat", "runs", "model.zip", "sbm:", "sbm:x=1", "ppi"),
    *("cora", "digits-graphs"),
]
PATHS = [
    *("runs", "runs", "rows.jsonl", "model.zip", "mine", "packed", "broken", "empty", "mine.toml"),
    *("space.toml", "split.csv", "new", "new.zip", "new.csv", "new.jsonl", "new.parquet", "new"),
    *("new.html", "new.toml", "no/such/place.csv", "/dev/null", "", "rows.csv", "torn.zip"),
]
TEXTS = {
    "scheme": ["random", "balanced", "folds", "given", "file:split.csv", "file:no.npz", "best"],
    "one_hot": ["colour", "height", "nothing"],
    "title": ["A title", "<script>"],
    "data": ["karate", "cora", "nothing"],
    "backbone": ["gcn", "gat", "nothing"],
    "aggr": ["softmax", "none", "nothing"],
    "names_or_paths": SOURCES,
    "sources": ["karate=karate", "karate", "x=mine", "="],
}
LIKELY = {  # what paths are mostly; the others are of any kind
    "model": ["model.zip"],
    "store": ["runs"],
    "out": ["new.csv", "new.zip", "new.html", "new", "new.parquet", "new.jsonl", "new.toml"],
    "folder": ["new"],
    "sources": ["rows.jsonl", "runs"],
    "space_name": ["space.toml"],
    "settings_name": ["default", "published", "auto"],
    "source": ["karate", "mine", "packed"],
    "name_or_path": ["karate", "mine"],
    "path": ["mine", "mine.npz", "tables"],
}
VALUES = ["0", "1", "2", "0.5", "1e-3", "none", "true", "false", "rows", "channel", "nan", "inf"]


def case(rng: np.random.Generator, counts: Counter[str]) -> Failure | None:
    """Draws a command line and runs it."""
    path, command = _drawn_command(rng)
    words = [*path, *options(command, rng), *ALWAYS.get(path[0], ())]
    found = run(words)
    counts[f"{' '.join(path)}: {'failed' if found.failure else found.code}"] += 1
    return found.failure


def _drawn_command(rng: np.random.Generator) -> tuple[tuple[str, ...], click.Command]:
    while True:
        path, command = choice(rng, commands())
        if rng.random() < SLOW.get(path[0], 1):
            return path, command


@cache
def commands() -> list[tuple[tuple[str, ...], click.Command]]:
    """All commands with their names."""
    found = []
    for name in sorted(COMMANDS):
        command = main.get_command(click.Context(main), name)
        if isinstance(command, click.Group):
            found += [((name, own), each) for own, each in sorted(command.commands.items())]
        else:
            found.append(((name,), command))
    return [(path, command) for path, command in found if path not in SKIPPED]


def options(command: click.Command, rng: np.random.Generator) -> list[str]:
    """Random options and arguments."""
    words: list[list[str]] = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument) or parameter.required:
            given = rng.random() < 0.97
        else:
            given = rng.random() < GIVEN
        if not given or parameter.name in ("engine", "distributed"):
            continue
        value = drawn(parameter, rng)
        if isinstance(parameter, click.Argument):
            words.append([value])
        elif parameter.is_flag:
            words.append([choice(rng, [*parameter.opts, *parameter.secondary_opts])])
        else:
            words.append([choice(rng, parameter.opts), value])
    if rng.random() < 0.02:
        words.append([choice(rng, ("--nothing", "-h", "--", "extra", "--out"))])
    return [word for each in words for word in each]


def drawn(parameter: click.Parameter, rng: np.random.Generator) -> str:
    """A value of an option, mostly one that is allowed."""
    kind, name = parameter.type, parameter.name
    if rng.random() < ODD:
        odd = choice(rng, (WORDS, NUMBERS, [text.encode() for text in (*SOURCES, *PATHS)]))
        text = choice(rng, odd).decode("latin-1").replace("\0", "")
        large = isinstance(kind, click.IntRange) and name in ("splits", "budget", "epochs", "jobs")
        return "0" if large or name in ("threads", "jobs") else text
    if name in LIKELY and rng.random() < 0.7:
        return choice(rng, LIKELY[name])
    if name in ("source", "name_or_path", "path"):
        return choice(rng, SOURCES)
    if name == "pairs":
        return f"{choice(rng, sorted(KINDS))}={choice(rng, VALUES)}"
    if name in TEXTS:
        return choice(rng, TEXTS[name])
    if isinstance(kind, click.Choice):
        return str(choice(rng, list(kind.choices)))
    if isinstance(kind, click.IntRange) or kind is click.INT:
        return str(int(rng.integers(1, 4)))
    if isinstance(kind, click.FloatRange) or kind is click.FLOAT:
        return f"{rng.random():.3f}"
    if hasattr(kind, "known"):
        return ",".join(choice(rng, list(kind.known)) for _ in range(choice(rng, (1, 1, 2))))
    if kind.name == "numbers":
        return choice(rng, ("3", "3,3", "-1,2", "2,2,2"))
    if kind.name == "size":
        return choice(rng, ("1", "10k", "4G", "1e3"))
    if kind.name == "name|file":
        return choice(rng, ("default", "published", "auto", "mine.toml", "broken.toml"))
    return choice(rng, PATHS)


class Found:
    """What a command line led to."""

    def __init__(self, code: int | None, failure: Failure | None) -> None:
        self.code, self.failure = code, failure


def run(words: list[str]) -> Found:
    """Runs a command line in a folder with inputs of every kind."""
    with inputs(), _without_network(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with limits():
                result = CliRunner().invoke(main, words, catch_exceptions=True)
        except TooLong:
            return Found(
                None, _failure(f"{words[0]} takes too long", words, traceback.format_exc())
            )
    return Found(result.exit_code, fault(words, result))


def fault(words: list[str], result: Result) -> Failure | None:
    """What is wrong with how a command ended, if anything."""
    error = result.exception
    if isinstance(error, TooLong):
        return _failure(f"{words[0]} takes too long", words, "")
    if error is not None and not isinstance(error, SystemExit):
        trace = "".join(traceback.format_exception(error))
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.name}"
        return _failure(f"{words[0]}: {type(error).__name__} in {where}", words, trace)
    if result.exit_code not in (0, 1, 2):
        return _failure(f"{words[0]}: exit code {result.exit_code}", words, result.output)
    if "Traceback (most recent" in result.output:
        return _failure(f"{words[0]} prints a traceback", words, result.output)
    if result.exit_code and len(result.output.split()) < 4:
        return _failure(f"{words[0]}: no sentence", words, result.output)
    return None


def _failure(kind: str, words: list[str], text: str) -> Failure:
    script = f"from tests.fuzz.commands import run\n\nfound = run({words!r})\n"
    return Failure(
        kind, f"{words}\n{text}", f"{script}assert found.failure is None, found.failure\n"
    )


@contextmanager
def _without_network() -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no network")

    with (
        mock.patch("urllib.request.urlopen", refuse),
        mock.patch.object(webbrowser, "open", lambda *_: True),
        mock.patch.dict(os.environ, {"MEANMAX_DATA": ""}),
    ):
        yield


@contextmanager
def inputs() -> Iterator[None]:
    """Changes into a fresh copy of the inputs."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "here"
        shutil.copytree(_originals(), place)
        os.chdir(place)
        try:
            yield
        finally:
            os.chdir(before)


@cache
def _originals() -> Path:
    kept = tempfile.TemporaryDirectory()
    parsers._kept.append(kept)
    folder, made = Path(kept.name), formats()
    rng = np.random.default_rng(0)

    def write(name: str, content: bytes | str) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    edges = [f"n{n},n{(n + step) % 24}\n" for n in range(24) for step in (1, 5)]
    for name, more in (("mine", ("", "")), ("colours", (",red", ",blue"))):
        nodes = [f"n{n},{n * 7 % 5},{'xy'[n % 2]}{more[n % 3 == 0]}\n" for n in range(24)]
        write(f"{name}/nodes.csv", f"id,height,label{more[0] and ',colour'}\n" + "".join(nodes))
        write(f"{name}/edges.csv", "source,target\n" + "".join(edges))
    write("numbers/nodes.csv", "id,f,label\n" + "".join(f"{n},{n},{n / 7}\n" for n in range(24)))
    write("numbers/edges.csv", "source,target\n" + "".join(f"{n},{n - 1}\n" for n in range(1, 24)))
    for kind, within in (("npz", ""), ("several", ""), ("tables", "tables"), ("store", ""),
                         ("parts", ""), ("space", ""), ("rows jsonl", ""), ("settings", ""),
                         ("split split.csv", ""), ("model gcn", "")):  # fmt: skip
        for name, content in made[kind].files.items():
            place = name.replace("g/", "packed/", 1) if kind == "parts" else name
            write(place.replace("mine/", "tables/", 1) if within else place, content)
    for name, content in made["parts"].files.items():
        write(name.replace("g/", "broken/", 1), mutate(content, name, rng))
    write("torn.zip", made["model gcn"].files["model.zip"][:-100])
    write("broken.toml", "[default\n")
    (folder / "empty").mkdir()
    code = run_plainly(folder, "train", "--data", "karate", "--out", "model.zip", "--force")
    assert code == 0
    return folder


def run_plainly(folder: Path, *words: str) -> int:
    """Runs a command in a folder; its exit code."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(main, [*words, "--set", "epochs=2"]).exit_code
    finally:
        os.chdir(before)

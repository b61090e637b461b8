"""A pytest plugin that runs the library's tests as if no extra was installed.

``--part library`` selects the tests and doctests of the library. When a module of the library
imports a package that only an extra brings, the import fails as if the package was not there;
PyTorch, PyTorch Geometric and scikit-learn import what they like. ``--part rest`` selects all other
tests, with those of the library that are marked ``extra``, and blocks nothing.

Processes that tests start are blocked as well if they import this module before the library.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = (
    "names",
    "kernel_cache",
    "unpacking",
    "graph",
    "ops",
    "functional",
    "aggr",
    "nn",
    "data",
    "train",
    "scale",
)
READERS = ROOT / "src" / "meanmax" / "data" / "readers"  # of tables, GraphML and JSON
VARIABLE = "MEANMAX_TEST_WITHOUT_EXTRAS"

_blocks = ExitStack()


@functools.cache
def blocked_modules() -> frozenset[str]:
    """The modules of the packages that pyproject.toml lists for extras only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    optional = names(requirement for extra in extras for requirement in extra)
    optional -= names(project["dependencies"]) | {"meanmax"}
    modules = {name.replace("-", "_") for name in optional}
    for module, distributions in packages_distributions().items():
        if not names(distributions).isdisjoint(optional):
            modules.add(module)
    return frozenset(modules)


def names(requirements: Iterable[str]) -> set[str]:
    """The normalized names of distributions."""
    found = (re.match(r"[\w.-]+", requirement).group() for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


def is_library(module: str) -> bool:
    package, _, inside = module.partition(".")
    return package == "meanmax" and inside.partition(".")[0] in ("", *LIBRARY)


@contextmanager
def blocked() -> Iterator[None]:
    """Inside the block, modules of the library cannot import what only extras bring."""
    real_import, real_import_module = builtins.__import__, importlib.import_module
    real_find_spec = importlib.util.find_spec
    modules = blocked_modules()

    def missing(name: str, importer: str) -> bool:
        return name.partition(".")[0] in modules and is_library(importer)

    def refuse(name: str, importer: str) -> None:
        if missing(name, importer):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def import_(name, globals=None, locals=None, fromlist=(), level=0):
        if level == 0:
            refuse(name, (globals or {}).get("__name__") or "")
        return real_import(name, globals, locals, fromlist, level)

    def import_module(name, package=None):
        refuse(name, caller())
        return real_import_module(name, package)

    def find_spec(name, package=None):
        return None if missing(name, caller()) else real_find_spec(name, package)

    def caller() -> str:
        return sys._getframe(2).f_globals.get("__name__", "")

    builtins.__import__, importlib.import_module = import_, import_module
    importlib.util.find_spec = find_spec
    try:
        yield
    finally:
        builtins.__import__, importlib.import_module = real_import, real_import_module
        importlib.util.find_spec = real_find_spec


def pytest_addoption(parser):
    text = "library: its tests, without the extras; rest: all other tests"
    parser.addoption("--part", choices=["library", "rest"], help=text)


def pytest_configure(config):
    if config.getoption("part") == "library":
        os.environ[VARIABLE] = "1"
        block_here()


def block_here() -> None:
    """Blocks the extras until the process ends."""
    _blocks.enter_context(blocked())


def pytest_ignore_collect(collection_path, config):
    """With the library's, other tests are not even imported, as far as files tell them apart."""
    if config.getoption("part") == "library" and collection_path.suffix == ".py":
        return (
            True
            if part_of(collection_path) not in LIBRARY or needs_extra(collection_path)
            else None
        )
    return None


def needs_extra(path: Path) -> bool:
    """Whether all tests or doctests of a file need a package of an extra."""
    if path.is_relative_to(READERS):
        return True
    return path.is_file() and "\npytestmark = pytest.mark.extra" in path.read_text(encoding="utf-8")


def pytest_collection_modifyitems(config, items):
    part = config.getoption("part")
    if part is None:
        return
    kept, others = [], []
    for item in items:
        (kept if belongs_to(item) == part else others).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=others)


def belongs_to(item) -> str:
    extra = item.get_closest_marker("extra") or doctest_imports(item) & blocked_modules()
    is_free = part_of(item.path) in LIBRARY and not extra and not needs_extra(item.path)
    return "library" if is_free else "rest"


def part_of(path: Path) -> str:
    """The part of meanmax that a file belongs to, by the first folder below src or tests."""
    for folder in (ROOT / "src" / "meanmax", ROOT / "tests"):
        if path.is_relative_to(folder):
            return path.relative_to(folder).parts[0].removeprefix("test_").removesuffix(".py")
    return ""


def doctest_imports(item) -> set[str]:
    """The packages that a doctest imports."""
    examples = item.dtest.examples if isinstance(item, pytest.DoctestItem) else ()
    pattern = r"^(?:from|import)\s+(\w+)"
    return {name for example in examples for name in re.findall(pattern, example.source, re.M)}


def pytest_sessionfinish(session, exitstatus):
    """Files or words that the user chose may have no tests in one of the parts."""
    config = session.config
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS or config.option.keyword
    if config.getoption("part") and chosen and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK


if os.environ.get(VARIABLE):  # this is a process that a test of the library has started
    block_here()

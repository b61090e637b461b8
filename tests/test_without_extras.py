"""The library's tests really run without the packages of extras."""

import importlib
import importlib.util
import os
import subprocess
import sys
import tomllib
import types

import pytest

from .without_extras import LIBRARY, ROOT, VARIABLE, blocked, blocked_modules, is_library, part_of

IMPORTS = [
    "import click",
    "import pyarrow.parquet as parquet",
    "from rich.table import Table",
    "def read():\n    import pandas\nread()",
    "importlib.import_module('networkx')",
    "importlib.import_module('pyarrow.csv')",
]


def run_as(module, source):
    """Runs code as if it stood in a module of that name."""
    fake = types.ModuleType(module)
    fake.importlib = importlib
    exec(source, vars(fake))
    return vars(fake)


@pytest.mark.parametrize("source", IMPORTS)
@pytest.mark.parametrize("module", ["meanmax", "meanmax.functional", "meanmax.data.readers.fake"])
def test_the_library_cannot_import_extras(module, source):
    run_as(module, source)  # they are installed
    with blocked(), pytest.raises(ModuleNotFoundError, match="No module named"):
        run_as(module, source)
    run_as(module, source)


@pytest.mark.parametrize("module", ["meanmax.study.fake", "meanmax.cli", "torch", "sklearn.fake"])
def test_others_can(module):
    with blocked():
        for source in IMPORTS:
            run_as(module, source)


def test_the_library_imports_its_dependencies_and_itself():
    with blocked():
        run_as("meanmax.nn.fake", "import numpy, numba\nfrom meanmax.nn import conv")
        run_as("meanmax.data.fake", "importlib.import_module('meanmax.data.splits')")


def test_a_blocked_package_is_not_found_either():
    source = "import importlib.util\nfound = importlib.util.find_spec('pandas')"
    with blocked():
        assert run_as("meanmax.data.fake", source)["found"] is None
        assert run_as("meanmax.study.fake", source)["found"] is not None


@pytest.mark.parametrize("part, variable", [("library", ""), ("rest", "1"), ("rest", "")])
def test_the_option_and_the_variable_block_until_the_process_ends(part, variable):
    source = (
        "import gc, types, tests.without_extras as plugin\n"
        f"plugin.pytest_configure(types.SimpleNamespace(getoption=lambda _: {part!r}))\n"
        "gc.collect()\n"
        "exec('import click', {'__name__': 'meanmax.data.fake'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        env={**os.environ, VARIABLE: variable},
        capture_output=True,
        text=True,
    )
    is_blocked = part == "library" or variable == "1"
    assert ("No module named 'click'" in done.stderr) == is_blocked, done.stderr
    assert done.returncode == is_blocked


def test_what_is_blocked():
    study = {"click", "rich", "jinja2", "matplotlib", "pyarrow", "pandas", "networkx", "filelock"}
    assert blocked_modules() >= study | {"ray", "playwright", "pymetis", "tensorboard"}
    assert not blocked_modules() & {"torch", "torch_geometric", "numba", "numpy", "scipy"}
    assert not blocked_modules() & {"sklearn", "meanmax"}


def test_the_library_has_six_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = {requirement.partition(">=")[0] for requirement in project["dependencies"]}
    assert listed == {"torch", "torch-geometric", "numba", "numpy", "scipy", "scikit-learn"}


def test_parts_of_files():
    assert part_of(ROOT / "tests" / "data" / "readers" / "test_read.py") == "data"
    assert part_of(ROOT / "tests" / "test_functional.py") == "functional"
    assert part_of(ROOT / "src" / "meanmax" / "functional.py") == "functional"
    assert part_of(ROOT / "src" / "meanmax" / "study" / "runs" / "row.py") == "study"
    assert all(is_library(f"meanmax.{part}.x") for part in LIBRARY)
    assert not is_library("meanmax.study") and not is_library("meanmax_extras.data")

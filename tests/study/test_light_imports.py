"""Commands that only read and print rows must not wait for PyTorch."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "torch_geometric", "numba", "sklearn", "scipy", "pyarrow", "pandas", "matplotlib")


def loaded(program):
    """The heavy packages that a fresh interpreter has imported after running a program."""
    check = f"{program}\nimport sys\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    "module",
    [
        "paper.result_tables",
        "paper.reproduction",
        "runs.machine",
        "runs.run_missing",
        "stats.comparison",
        "store.exports",
    ],
)
def test_importing_a_module_of_the_study(module):
    assert loaded(f"import meanmax.study.{module}") == []


def test_reading_rows_and_making_cells(tmp_path):
    from meanmax.study.store.exports import export_rows
    from tests.study.rows import row

    export_rows([row(seed=seed) for seed in range(3)], tmp_path / "rows.jsonl")
    program = f"""
from pathlib import Path
from meanmax.study.paper.result_tables import table
from meanmax.study.stats.cells import cells
from meanmax.study.store.exports import read_rows
rows = read_rows(Path({str(tmp_path / "rows.jsonl")!r}))
assert len(cells(rows)) == 1
assert table(rows, 2, data=["cora"], backbones=["gcn"]).cells[0].n == 3
"""
    assert loaded(program) == []


def test_heavy_packages_are_found():
    assert loaded("import meanmax.study.runs.execute")[:3] == ["torch", "torch_geometric", "numba"]

"""Kernels compiled ahead of use are found by later processes."""

from pathlib import Path

from click.testing import CliRunner

from meanmax import names
from meanmax.cli import main
from meanmax.cli.commands import warmup


def test_every_kernel_of_every_model(monkeypatch):
    """Prints where the kernels are, after a step of each model."""
    seen = []
    monkeypatch.setattr(warmup, "_train_step", lambda *model: seen.append(model))
    done = CliRunner().invoke(main, ["warmup", "--float64"])
    assert done.exit_code == 0, done.output
    aggregating = [name for name in names.BACKBONES if name != "mlp"]
    wanted = {(name, aggr, True) for name in aggregating for aggr in (None, *names.AGGREGATORS)}
    assert set(seen) == {*wanted, ("mlp", None, True)}
    assert len(seen) == len(set(seen))
    assert Path(done.stdout.strip().splitlines()[-1]).name


def test_a_step_runs_fast_and_exact_kernels():
    warmup._train_step("gat", "softmax", False)
    warmup._train_step("gcn", "lp", True)

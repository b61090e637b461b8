"""Training under torchrun: like one process, killed and resumed, and with bad input."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner

from meanmax import NodeClassifier
from meanmax.cli import main
from meanmax.cli.training import report_failures
from meanmax.scale import RankError

DYING = Path(__file__).with_name("killing.py")
# Ranks that wait for a slow machine are not taken for dead.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MEANMAX_RANK_TIMEOUT": "600", "DYING_RANK": "1"}
DIGITS = ["--data", "digits", "--aggr", "softmax", "--set", "hidden=16"]


def train(
    folder: Path, *args: str, ranks: int = 2, program: tuple[str, ...] = ("-m", "meanmax")
) -> tuple[int, str, str]:
    """Trains under torchrun; exit code, standard output and standard error."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), *program, "train", "--distributed", *args]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout, done.stderr


def weights(path: Path) -> dict[str, torch.Tensor]:
    return NodeClassifier.load(path).model_.state_dict()


def test_two_ranks_end_where_one_process_ends(tmp_path):
    options = [*DIGITS, "--set", "dropout=0", "--set", "epochs=8"]
    code, out, err = train(tmp_path, *options, "--out", "two.zip")
    assert code == 0, err
    assert "accuracy on test nodes" in out
    one = CliRunner().invoke(main, ["train", *options, "--out", str(tmp_path / "one.zip")])
    assert one.exit_code == 0, one.output
    alone, together = weights(tmp_path / "one.zip"), weights(tmp_path / "two.zip")
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        assert torch.allclose(together[name], value, rtol=1e-4, atol=1e-5), name


def test_a_killed_rank_ends_the_job_and_the_next_one_resumes_from_the_checkpoint(tmp_path):
    options = [*DIGITS, "--set", "epochs=40", "--set", "patience=40"]
    code, _, err = train(tmp_path, *options, "--out", "undisturbed.zip")
    assert code == 0, err

    state = tmp_path / "model.zip.checkpoint"
    code, _, err = train(
        tmp_path,
        *(*options, "--out", "model.zip", "--checkpoint-every", "0"),
        program=(str(DYING), "step", "6"),  # the second rank dies in the sixth epoch
    )
    assert code != 0
    assert f"the same command resumes from {state.name}" in err
    assert state.exists() and not (tmp_path / "model.zip").exists()

    code, _, err = train(tmp_path, *options, "--out", "model.zip")
    assert code == 0, err
    assert "resuming from model.zip.checkpoint" in err
    assert not state.exists()
    wanted, found = weights(tmp_path / "undisturbed.zip"), weights(tmp_path / "model.zip")
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_without_torchrun_the_error_says_how_to_start_it(tmp_path, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    result = CliRunner().invoke(
        main, ["train", "--distributed", *DIGITS, "--out", str(tmp_path / "m.zip")]
    )
    assert result.exit_code == 1
    assert "torchrun --nproc-per-node 2 -m meanmax train --distributed" in result.output


def test_what_cannot_be_spread_is_refused(tmp_path):
    cat = ["--data", "karate", "--backbone", "cat", "--out", "m.zip"]
    code, _, err = train(tmp_path, *cat, ranks=1)
    assert code != 0
    assert "needs the whole graph in one process" in err


def test_as_many_processes_as_parts(tmp_path):
    cut = ["partition", "--data", "karate", "--parts", "2", "--out", str(tmp_path / "parts")]
    assert CliRunner().invoke(main, cut).exit_code == 0
    code, _, err = train(tmp_path, "--data", "parts", "--aggr", "lp", "--out", "m.zip", ranks=1)
    assert code != 0
    assert "torchrun --nproc-per-node 2" in err


def test_what_a_cut_has_settled_is_not_given_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cut = ["partition", "--data", "karate", "--parts", "2", "--out", "parts"]
    assert CliRunner().invoke(main, cut).exit_code == 0
    command = ["train", "--data", "parts", "--out", "m.zip"]
    for options, said in (
        ([], "add --distributed"),
        (["--distributed", "--split-seed", "7"], "--split-seed: the graph in parts was cut"),
    ):
        result = CliRunner().invoke(main, [*command, *options])
        assert result.exit_code == 1
        assert said in result.output
    again = CliRunner().invoke(main, cut)
    assert again.exit_code == 0, again.output
    other = CliRunner().invoke(main, [*cut[:-1], "parts", "--method", "blocks"])
    assert other.exit_code == 1
    assert "delete it, or name another folder" in other.output


def test_a_rank_speaks_though_the_launcher_stops_it(tmp_path, monkeypatch, capsys):
    before, show = signal.getsignal(signal.SIGTERM), click.ClickException.show

    def stopped_first(error):
        os.kill(os.getpid(), signal.SIGTERM)
        show(error)

    monkeypatch.setattr(click.ClickException, "show", stopped_first)
    state = tmp_path / "model.zip.checkpoint"
    state.touch()
    with pytest.raises(click.exceptions.Exit) as ended, report_failures(state):
        raise RankError("another rank is gone")
    assert ended.value.exit_code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "another rank is gone; the same command resumes from" in said
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_rank_that_is_stopped_on_its_way_out_reports_once(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended, report_failures(tmp_path / "model.zip.checkpoint"):
        try:
            raise RankError("another rank is gone")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "the same command" in line]
    assert "stopped by the launcher" in line and "starts over" in line

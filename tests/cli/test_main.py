import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.cli.main import COMMANDS, UNLISTED

ROWS = Path(__file__).parents[2] / "results" / "rows.jsonl"
WITHOUT_A_MODEL = [
    *([name, "--help"] for name in (*COMMANDS, *UNLISTED)),
    ["data", "check", "--help"],
    ["data", "list"],
    ["figure", "--list"],
    ["results", "show", "--store", str(ROWS), "--data", "cora"],
    ["report", "--store", "nothing"],
    ["compare", "--data", "cora", "--aggr", "nothing"],
    ["train", "--data", "cora", "--out", "no/folder/model.zip"],
    ["reproduce", "table2", "--no-run", "--store", str(ROWS), "--data", "cora"],
]
PROGRAM = """
import json, sys
from click.testing import CliRunner
from meanmax.cli import main
codes = []
for arguments in json.load(sys.stdin):
    codes.append(CliRunner().invoke(main, arguments).exit_code)
    assert "torch" not in sys.modules, arguments
print(codes)
"""


def test_version():
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("meanmax, version ")


def test_help_lists_the_commands():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "bench" in result.stdout


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "meanmax", "nothing"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 2
    assert "Usage: python -m meanmax" in result.stderr
    assert "No such command 'nothing'" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_names_that_an_output_cannot_encode_are_shown(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9 \xc3\xa9")
    folder.mkdir()
    command = [sys.executable, "-m", "meanmax", "data", "check", str(folder)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(command, capture_output=True, timeout=600, env=environment)
    assert result.returncode == 1
    assert rb"caf\udce9 " + "é: error: the folder holds no".encode() in result.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_is_full_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "meanmax", "data", "list"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=600)
    assert result.returncode == 1
    assert result.stderr.decode().startswith("Error: [Errno 28] No space left on device")


@pytest.mark.skipif(os.name != "posix", reason="it closes streams in a POSIX shell")
def test_streams_may_be_closed():
    command = [sys.executable, "-m", "meanmax", "data", "list"]
    shell = ["sh", "-c", '"$@" <&- >&-', "sh", *command]
    result = subprocess.run(shell, capture_output=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, b"")


def test_an_unknown_command_is_answered_with_names():
    result = CliRunner().invoke(main, ["trian"])
    assert result.exit_code == 2
    assert "there is no command 'trian': did you mean 'train'" in result.stderr


def test_what_needs_no_model_answers_without_pytorch():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(WITHOUT_A_MODEL),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    helps = len(COMMANDS) + len(UNLISTED)
    assert json.loads(done.stdout) == [0] * helps + [0, 0, 0, 0, 1, 2, 1, 0]


def test_without_its_extra_the_command_names_it(tmp_path):
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('gone', name='click')")
    done = subprocess.run(
        [sys.executable, "-m", "meanmax", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the meanmax command needs click, which is not installed: "
        "pip install 'meanmax[study]'\n"
    )

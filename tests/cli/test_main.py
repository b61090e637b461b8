import subprocess
import sys

from click.testing import CliRunner

from meanmax.cli import main


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
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert "Usage: python -m meanmax" in result.stderr
    assert "No such command 'nothing'" in result.stderr


def test_an_unknown_command_is_answered_with_names():
    result = CliRunner().invoke(main, ["trian"])
    assert result.exit_code == 2
    assert "there is no command 'trian': did you mean 'train'" in result.stderr

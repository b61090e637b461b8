r"""Runs a module of the bench in a fresh process that speaks JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


class ChildError(RuntimeError):
    r"""A child process that failed; the message ends with what it said."""


def run_child(module: str, request: dict[str, Any], env: dict[str, str] | None = None) -> Any:
    r"""Runs :obj:`python -m module` and returns what it answers.

    Args:
        module (str): The module; it reads one JSON value from stdin and writes one to stdout.
        request (dict): What to write to its stdin.
        env (dict, optional): Environment variables to set on top. (default: :obj:`None`)
    """
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        env=inherited | (env or {}),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise ChildError(f"python -m {module} ended with {done.returncode}: {said[-1]}")
    return json.loads(done.stdout)


def answer(respond: Any) -> None:
    r"""The child's side: answers the request on stdin."""
    json.dump(respond(json.load(sys.stdin)), sys.stdout)

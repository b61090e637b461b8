import pytest

from meanmax.study.bench.memory import ChildError, run_child


def test_a_child_that_fails_says_why():
    with pytest.raises(ChildError, match="No module named meanmax.study.bench.nothing"):
        run_child("meanmax.study.bench.nothing", {})


def test_request_and_environment_reach_the_child(tmp_path, monkeypatch):
    (tmp_path / "echo.py").write_text(
        "import json, os, sys\njson.dump([json.load(sys.stdin), os.environ['COLOUR']], sys.stdout)"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run_child("echo", {"a": 1}, {"COLOUR": "red"}) == [{"a": 1}, "red"]

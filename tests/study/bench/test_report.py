import copy
import io
import json

import pytest

from meanmax.study.bench.competitors import COMPETITORS, PASSES
from meanmax.study.bench.report import check_folder, failures, print_tables, write_files

from .small import small_result


@pytest.fixture
def full_result():
    """Everything a result may hold: a sweep, a cold start and a competitor that failed."""
    result = copy.deepcopy(small_result())
    graph = result["graphs"][0]
    failed = graph["results"][0]
    failed |= {"error": "RuntimeError: broken", "median_ms": None, "ratio_to_floor": None}
    result["sweep"] = {"edges": [graph], "channels": [graph]}
    first = {"lp-numba": 1.5, "exact-numba": 0.25}
    run = {"first_call_seconds": first, "three_aggregators_seconds": 1.5}
    result["cold"] = {"error": None, "compile": run, "cached": run}
    return result


def printed(result):
    file = io.StringIO()
    print_tables(result, file)
    return file.getvalue()


def test_tables_name_everything():
    text = printed(small_result())
    assert all(competitor.label in text for competitor in COMPETITORS.values())
    assert all(f"power-law: {key}, 60 nodes, 400 edges, 4 channels" in text for key in PASSES)
    assert "[nodes, channels]" in text
    assert "float32" in text
    assert "note: amazon-computers skipped" in text


def test_tables_of_a_full_result(full_result):
    text = printed(full_result)
    assert "failed" in text
    assert "power-law, linear sum (numba), forward: RuntimeError: broken" in failures(full_result)
    assert "sweep: forward+backward" in text
    assert "all three aggregators" in text


def test_files(tmp_path, full_result):
    written = write_files(full_result, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bench.json",
        "bench.png",
        "bench.svg",
    ]
    assert json.loads(written[0].read_text()) == full_result
    assert written[1].read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in written[2].read_text()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    (tmp_path / "bench.json").write_text("old")
    with pytest.raises(TypeError):
        write_files({"not": {"json"}}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]
    assert (tmp_path / "bench.json").read_text() == "old"


def test_folder_is_made_and_left_empty(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []

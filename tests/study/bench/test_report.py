import json

import pytest

from meanmax.study.bench.report import check_folder, write_files

from .small import full_result


def test_files(tmp_path):
    result = full_result()
    written = write_files(result, tmp_path, "bench")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bench.json",
        "bench.png",
        "bench.svg",
    ]
    assert json.loads(written[0].read_text()) == result
    assert written[1].read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in written[2].read_text()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    (tmp_path / "bench.json").write_text("old")
    with pytest.raises(TypeError):
        write_files({"not": {"json"}}, tmp_path, "bench")
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]
    assert (tmp_path / "bench.json").read_text() == "old"


def test_folder_is_made_and_left_empty(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from meanmax.data.files import (
    DataError,
    escaped,
    optional,
    read_npy,
    read_npz,
    read_zip,
    replacing,
    unescaped,
)
from meanmax.unpacking import max_unpacked

from .mutate import only_clear_errors


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["a", "bc"]),
        np.array(2.5),
        np.zeros((0, 3), np.int8),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
    ],
    ids=str,
)
def test_what_numpy_saves_is_read(array):
    read = read_npy(npy(array), "a file")
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)


def test_only_the_named_arrays_are_read():
    content = npz(a=np.arange(3), b=np.array([{"an": "object"}], dtype=object))
    assert read_npz(content, ("a",), "a file")["a"].tolist() == [0, 1, 2]
    converted = r"Python objects.*np\.array\(values\.tolist\(\), float\)"
    with pytest.raises(DataError, match=converted):
        read_npz(content, ("a", "b"), "a file")


def test_a_missing_array_is_named():
    with pytest.raises(DataError, match=r"'a file' lacks b\.npy"):
        read_npz(npz(a=np.arange(3)), ("a", "b"), "a file")


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_inside_runs_nothing(tmp_path):
    victim = tmp_path / "was-here"
    array = np.array([Attack(victim)], dtype=object)
    for content in (npy(array, allow_pickle=True), pickle.dumps(Attack(victim))):
        with pytest.raises(DataError):
            read_npy(content, "a file")
        with pytest.raises(DataError):
            read_npz(npz(x=array), ("x",), "a file")
    assert not victim.exists()


@pytest.mark.parametrize("shape", ["(3,)", "(10**9, 10**9)", "(-1,)", "(2, -1)", "(2.0,)", "2"])
def test_a_shape_that_does_not_fit_is_refused_before_memory_is_taken(shape):
    content = npy(np.arange(2)).replace(b"(2,), ", f"{shape}, ".encode())
    with pytest.raises(DataError, match="a file"):
        read_npy(content, "a file")


def test_a_member_that_claims_too_much_is_refused():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(1001))
        archive.writestr("fine", bytes(1000))
    with max_unpacked(1000):
        assert len(read_zip(stream.getvalue(), ("fine",), "a file")["fine"]) == 1000
        with pytest.raises(DataError, match="more than the 1,000 that"):
            read_zip(stream.getvalue(), ("bomb",), "a file")


def test_damaged_files():
    plain = npy(np.arange(12, dtype=np.int32).reshape(3, 4))
    assert only_clear_errors(lambda content: read_npy(content, "a file"), plain, 2000) > 500
    archive = npz(a=np.arange(50), b=np.eye(3))
    assert only_clear_errors(lambda data: read_npz(data, ("a", "b"), "a file"), archive, 1000) > 500


def test_a_missing_extra_is_named():
    assert optional("json", "reading JSON") is json
    with pytest.raises(
        DataError, match=r"^reading X needs absent: pip install 'meanmax\[study\]'$"
    ):
        optional("absent.module", "reading X")
    with pytest.raises(ImportError, match=r"meanmax\[other\]"):
        optional("absent", "reading X", extra="other")


@pytest.mark.parametrize(
    "cell",
    [
        "=1+2",
        "+1-2",
        "-cmd|' /C calc'!A0",
        "@sum(1)",
        "=",
        "-",
        "'=1",
        "\t=1",
        "\r=1",
        " +a",
        "\uff1d1",
    ],
)
def test_a_formula_gets_an_apostrophe_and_comes_back(cell):
    assert escaped(cell) == f"'{cell}"
    assert unescaped(escaped(cell)) == cell


@pytest.mark.parametrize(
    "cell", ["-1.5", "+3", "-1e-7", "-.5", "", "a=b", "'a", "1-2", "'-1.5x"[2:]]
)
def test_numbers_and_other_texts_stay(cell):
    assert escaped(cell) == unescaped(cell) == cell


@pytest.mark.parametrize("cell", ["'-1.5", "''=1", "'", "'a", "''-1.5", "-1_000"])
def test_what_has_apostrophes_already_comes_back(cell):
    assert unescaped(escaped(cell)) == cell


def test_a_disk_that_is_full_names_the_file_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="No space") as caught, replacing(tmp_path / "file"):
        raise OSError(28, "No space left on device")
    assert caught.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []

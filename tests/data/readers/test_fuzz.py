"""Damaged files of every format: either a data set or the one clear error, never anything else."""

import io
import random
import shutil
import warnings
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meanmax.data import Dataset
from meanmax.data.readers import OwnDataError, read_own

from . import graphs

ROUNDS = 150
WRITERS = graphs.WRITERS | graphs.COLLECTIONS
# What means something to a parser is more likely to lead it astray than any byte.
TEXT = b"""  " , - . -1 nan 1e999 True < &a; { [ | = PK\x03\x04 \xef\xbb\xbf \x80\x04 \xff"""
SPICE = [b"", b"\0", b"\n", b"\r", b"9" * 30, *TEXT.split()]


def mutate(data, rng):
    """Flips bits, cuts, repeats or swaps pieces, or puts in something meaningful."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice([0, 1, 4, 40]))
        kind = rng.randrange(5)
        if kind == 0 and start < len(data):
            data[start] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[start : rng.choice([end, len(data)])]
        elif kind == 2:
            data[start:start] = data[start:end] * rng.choice([1, 3])
        elif kind == 3:
            data[start:end] = rng.choice(SPICE)
        else:
            data[start:end] = rng.randbytes(end - start)
    return bytes(data)


def mutate_members(data, rng):
    """Changes what is inside a zip and closes it properly, so that no checksum protects it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        changed = rng.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, mutate(content, rng) if name == changed else content)
    return out.getvalue()


def read_or_refuse(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            assert isinstance(read_own(path), Dataset)
        except OwnDataError as error:
            assert error.problems and str(error)
            return False
    return True


@pytest.mark.parametrize("format", graphs.with_marks(WRITERS))
def test_damaged_files(format, tmp_path):
    rng = random.Random(format)
    path = WRITERS[format](tmp_path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    originals = {file: file.read_bytes() for file in files}
    assert read_or_refuse(path)
    refused = 0
    for round in range(ROUNDS):
        damaged = rng.choice(files)
        inside = zipfile.is_zipfile(damaged) and round % 2
        damaged.write_bytes((mutate_members if inside else mutate)(originals[damaged], rng))
        refused += not read_or_refuse(path)
        damaged.write_bytes(originals[damaged])
    assert refused > ROUNDS // 10


@pytest.mark.parametrize("format", graphs.with_marks(WRITERS))
def test_cut_off_files(format, tmp_path):
    path = WRITERS[format](tmp_path)
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        data = file.read_bytes()
        for part in range(12):
            file.write_bytes(data[: len(data) * part // 12])
            read_or_refuse(path)
        file.write_bytes(data)


@pytest.mark.parametrize("format", graphs.with_marks(WRITERS))
def test_files_of_another_kind(format, tmp_path):
    path = WRITERS[format](tmp_path)
    target = sorted(path.iterdir())[-1] if path.is_dir() else path
    for number, (other, writer) in enumerate(WRITERS.items()):
        source = tmp_path / f"other{number}"
        source.mkdir()
        written = writer(source)
        found = sorted(written.iterdir()) if written.is_dir() else [written]
        if other != format and not (path.is_dir() and written.is_dir()):
            shutil.copy(found[0], target)
            if found[0].suffix != target.suffix:
                assert not read_or_refuse(path)


CELL = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["id", "label", "split", "source", "target", "weight", "0", "1", "a", "-1", "nan", "", "x|y"]
)
TABLE = st.lists(st.lists(CELL, max_size=5).map(",".join), max_size=8).map("\n".join)


@pytest.mark.extra
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(TABLE, TABLE)
def test_any_text(tmp_path_factory, nodes, edges):
    folder = tmp_path_factory.mktemp("text")
    read_or_refuse(graphs.csv_folder(folder, nodes, edges))
    read_or_refuse(graphs.csv_folder(folder, nodes=f"id,f,label\n{nodes}", edges=edges))
    tables = {"graphs": f"id,label\n0,x\n1,y\n{edges}", "nodes": f"graph,id,f\n0,0,0\n{nodes}"}
    read_or_refuse(graphs.collection_folder(folder, **tables, edges=f"source,target\n{edges}"))

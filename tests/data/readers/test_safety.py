"""Files that would run a command, fill the memory or name other files are refused."""

import collections
import gzip
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from torch_geometric.data import Data

from meanmax.data.readers import OwnDataError, problems, read_own

from . import graphs


class Malicious:
    """Unpickling it makes a folder, as the proof that something ran."""

    def __init__(self, proof):
        self.proof = proof

    def __reduce__(self):
        return os.mkdir, (str(self.proof),)


def npz_of_objects(folder, bomb):
    arrays = np.empty(4, object)
    arrays[:] = bomb
    return graphs.benchmark_file(folder, labels=arrays)


def npz_that_is_a_pickle(folder, bomb):
    return graphs.write(folder, {"a.npz": pickle.dumps(bomb)}) / "a.npz"


def npz_with_a_pickle_for_an_array(folder, bomb):
    path = graphs.benchmark_file(folder, labels=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.npy", pickle.dumps(bomb))
    return path


def tensors_and_an_object(folder, bomb):
    return graphs.tensors_file(folder, extra=bomb)


def data_with_an_object(folder, bomb):
    data = graphs.data_object()
    data.extra = bomb
    torch.save(data, folder / "a.pt")
    return folder / "a.pt"


def data_in_the_old_format(folder, bomb):
    torch.save({"x": bomb}, folder / "a.pt", _use_new_zipfile_serialization=False)
    return folder / "a.pt"


def pt_that_is_a_pickle(folder, bomb):
    return graphs.write(folder, {"a.pt": pickle.dumps(bomb)}) / "a.pt"


def json_that_is_a_pickle(folder, bomb):
    return graphs.write(folder, {"a.json": pickle.dumps(bomb)}) / "a.json"


def graphml_that_is_a_pickle(folder, bomb):
    return graphs.write(folder, {"a.graphml": pickle.dumps(bomb)}) / "a.graphml"


def csv_that_is_a_pickle(folder, bomb):
    return graphs.csv_folder(folder, nodes=pickle.dumps(bomb))


def parquet_that_is_a_pickle(folder, bomb):
    return graphs.write(folder, {"nodes.parquet": pickle.dumps(bomb), "edges.csv": "a,b\n"})


MALICIOUS = [
    npz_of_objects,
    npz_that_is_a_pickle,
    npz_with_a_pickle_for_an_array,
    tensors_and_an_object,
    data_with_an_object,
    data_in_the_old_format,
    pt_that_is_a_pickle,
    pytest.param(json_that_is_a_pickle, marks=pytest.mark.extra),
    pytest.param(graphml_that_is_a_pickle, marks=pytest.mark.extra),
    pytest.param(csv_that_is_a_pickle, marks=pytest.mark.extra),
    pytest.param(parquet_that_is_a_pickle, marks=pytest.mark.extra),
]


@pytest.mark.parametrize("make", MALICIOUS)
def test_a_malicious_pickle_runs_nothing(make, tmp_path):
    proof = tmp_path / "proof"
    path = make(tmp_path, Malicious(proof))
    with pytest.raises(OwnDataError):
        read_own(path)
    assert not proof.exists()


def test_the_malicious_pickle_is_malicious(tmp_path):
    pickle.loads(pickle.dumps(Malicious(tmp_path / "proof")))
    assert (tmp_path / "proof").exists()


@pytest.mark.extra
def test_parquet_with_a_pickled_type_runs_nothing(tmp_path):
    """Old versions of Arrow unpickled the parameters of Python extension types."""
    proof = tmp_path / "proof"
    marks = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Malicious(proof)),
    }
    field = pa.field("id", pa.string(), metadata=marks)
    names = pa.schema([field, pa.field("f", pa.float64())])
    path = graphs.write(tmp_path / "mine", {"edges.csv": "a,b\n"})
    table = pa.Table.from_arrays([pa.array(["a", "b"]), pa.array([1.0, 2.0])], schema=names)
    pyarrow.parquet.write_table(table, path / "nodes.parquet")
    try:
        read_own(path)
    except OwnDataError:
        pass
    assert not proof.exists()


@pytest.mark.parametrize("saved", [collections.Counter(a=1), Data, os.getcwd, [Data()], 3, None])
def test_other_objects_in_a_pt_file(saved, tmp_path):
    torch.save(saved, tmp_path / "a.pt")
    with pytest.raises(
        OwnDataError,
        match=r"a\.pt(\[0\])?: (is not a readable|holds (objects other|no tensor|neither))",
    ):
        read_own(tmp_path / "a.pt")


def test_reading_leaves_no_class_admitted(tmp_path):
    before = set(torch.serialization.get_safe_globals())
    read_own(graphs.data_file(tmp_path))
    assert set(torch.serialization.get_safe_globals()) == before


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;">]>
<graphml><graph><node id="&c;"/></graph></graphml>"""
OTHER_FILE = """<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY secret SYSTEM "file:///etc/passwd">]>
<graphml><graph><node id="&secret;"/></graph></graphml>"""
OTHER_TYPE = '<!DOCTYPE graphml SYSTEM "http://localhost/graphml.dtd"><graphml></graphml>'


@pytest.mark.extra
@pytest.mark.parametrize("text", [LAUGHS, OTHER_FILE, OTHER_TYPE])
def test_document_types_are_refused(text, tmp_path):
    path = graphs.write(tmp_path, {"a.graphml": text}) / "a.graphml"
    with pytest.raises(OwnDataError, match=r"a\.graphml:[12]: .*refused as unsafe"):
        read_own(path)


@pytest.mark.extra
@pytest.mark.parametrize("name", ["nodes.csv.gz", "a.graphml.gz", "a.json.gz"])
def test_a_packed_bomb_stops_early(name, tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "memory", lambda: 1 << 20)
    packed = gzip.compress(b" " * (64 << 20))
    path = graphs.write(tmp_path / "mine", {name: packed, "edges.csv": "a,b\n"})
    assert len(packed) < 1 << 19
    with pytest.raises(OwnDataError, match="more than half of this machine's memory"):
        read_own(path if name.startswith("nodes") else path / name)


def test_an_array_bomb_stops_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "memory", lambda: 1 << 20)
    arrays = {**graphs.benchmark_arrays(), "attr_matrix": np.zeros((4, 1 << 20))}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    with pytest.raises(OwnDataError, match="takes 33,.* bytes unpacked, more than half"):
        read_own(tmp_path / "a.npz")


def test_an_array_that_claims_to_be_endless(tmp_path):
    header = io.BytesIO()
    claim = {"descr": "<f8", "fortran_order": False, "shape": (10**17, 10**17)}
    np.lib.format.write_array_header_1_0(header, claim)
    path = graphs.benchmark_file(tmp_path, labels=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.npy", header.getvalue())
    with pytest.raises(OwnDataError, match="is not a readable .npz file"):
        read_own(path)


@pytest.mark.extra
def test_deep_json(tmp_path):
    path = graphs.write(tmp_path, {"a.json": "[" * 200_000}) / "a.json"
    with pytest.raises(OwnDataError, match="JSON"):
        read_own(path)


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["attributes", "labels"])
def test_tables_that_are_mostly_empty_stop_early(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "memory", lambda: 1 << 22)
    if kind == "attributes":
        nodes = [{"id": number, f"f{number}": 1} for number in range(1000)]
        text = json.dumps({"nodes": nodes, "edges": []})
        path = graphs.write(tmp_path, {"a.json": text}) / "a.json"
    else:
        rows = "".join(f"{number},1,a{number}|b{number}\n" for number in range(1000))
        path = graphs.csv_folder(tmp_path, f"id,f,label\n{rows}", "0,1\n")
    with pytest.raises(OwnDataError, match="more than half of this machine's memory"):
        read_own(path)


@pytest.mark.extra
def test_endless_identifiers(tmp_path):
    path = graphs.csv_folder(tmp_path, f"id,f\na,1\n{'b' * 1001},1\n", "a,a\n")
    with pytest.raises(OwnDataError, match="nodes.csv:3: the identifier is longer than 1000"):
        read_own(path)


@pytest.mark.extra
def test_short_identifiers_beside_a_long_one_stop_early(tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "memory", lambda: 1 << 22)
    rows = "".join(f"{number},1\n" for number in range(1000))
    path = graphs.csv_folder(tmp_path, f"id,f\n{rows}{'b' * 1000},1\n", "0,1\n")
    with pytest.raises(OwnDataError, match="takes 4,004,000 bytes unpacked"):
        read_own(path)


def repacked(path):
    """The same members, now deflated."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    path.write_bytes(out.getvalue())
    return path


def test_a_deflated_pt_stops_before_it_is_unpacked(tmp_path, monkeypatch):
    path = repacked(graphs.tensors_file(tmp_path, x=torch.zeros(4, 1 << 18)))
    assert read_own(path).num_features == 1 << 18
    monkeypatch.setattr(problems, "memory", lambda: 1 << 20)
    assert path.stat().st_size < 1 << 19
    with pytest.raises(OwnDataError, match="takes 4,.* bytes unpacked, more than half"):
        read_own(path)


REPEATED = {
    "numbers": np.zeros(10**6),
    "texts": pa.array(["x" * 1000]).take(pa.array(np.zeros(10**4, int))),
    "bytes": pa.array([b"x" * 1000]).take(pa.array(np.zeros(10**4, int))),
    "fixed": pa.array([b"x" * 1000], pa.binary(1000)).take(pa.array(np.zeros(10**4, int))),
}


@pytest.mark.extra
@pytest.mark.parametrize("kind", REPEATED)
def test_parquet_of_one_repeated_value_stops_early(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(problems, "memory", lambda: 1 << 22)
    path = graphs.write(tmp_path / "mine", {"edges.csv": "a,b\n"})
    pyarrow.parquet.write_table(pa.table({"id": REPEATED[kind]}), path / "nodes.parquet")
    assert (path / "nodes.parquet").stat().st_size < 1 << 16
    with pytest.raises(OwnDataError, match="bytes unpacked, more than half"):
        read_own(path)


@pytest.mark.parametrize("make", [tensors_and_an_object, data_with_an_object])
def test_the_refusal_does_not_say_how_to_run_it(make, tmp_path):
    path = make(tmp_path, Malicious(tmp_path / "proof"))
    with pytest.raises(OwnDataError, match=r"other than tensors \(\w+\.mkdir\); nothing") as caught:
        read_own(path)
    assert "weights_only" not in str(caught.value)
    assert "trusted" not in str(caught.value)


@pytest.mark.extra
def test_parquet_with_damaged_facts_on_a_column_is_refused(tmp_path):
    """One flipped bit: pyarrow ends the process if it is asked for these facts."""
    path = graphs.write(tmp_path / "mine", {"nodes.csv": graphs.NODES_CSV})
    saved = Path(__file__).with_name("saved") / "ends-pyarrow.parquet"
    (path / "edges.parquet").write_bytes(saved.read_bytes())
    with pytest.raises(OwnDataError, match=r"edges.parquet: is not a readable Parquet file"):
        read_own(path)

"""A small valid file of every kind that is read, and how it is read."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from meanmax import Graph, NodeClassifier, SparseFeatures, build_model
from meanmax.data import Dataset, Split
from meanmax.data.benchmarks.amazon import read_amazon
from meanmax.data.benchmarks.citation import read_citation
from meanmax.data.benchmarks.ppi import read_ppi
from meanmax.data.files import DataError
from meanmax.data.readers import read_own
from meanmax.data.splits import read_split_file
from meanmax.ops.scaling import NotFiniteError
from meanmax.scale import BatchingError, FolderError, open_folder, predict_folder, write_folder
from meanmax.study.calibration import Case, Outcome, read_outcomes
from meanmax.study.report.why import FILE, Facts, read_facts
from meanmax.study.runs.row import Result
from meanmax.study.settings.search import Search, read_space
from meanmax.study.settings.settings import SettingsError, read_rules, read_settings
from meanmax.study.store.exports import export_rows, read_rows
from meanmax.study.store.store import Store, StoreError
from meanmax.train import Checkpoint, CheckpointError, Schedule, train
from meanmax.train.loading import load_model
from tests.data.benchmarks import python2, test_amazon, test_ppi
from tests.data.readers import graphs
from tests.data.test_files import npz
from tests.study.made_runs import failed, result
from tests.train.problems import small

Files = dict[str, bytes]
NODES = 12


@dataclass(frozen=True)
class Format:
    """One kind of input.

    Args:
        files: The content of its files, by their paths in a folder.
        read: Reads what is in a folder, and uses it.
        errors: What it may raise; a subclass of ValueError counts only if it is the library's.
    """

    files: Files
    read: Callable[[Path], object]
    errors: tuple[type[Exception], ...]


@cache
def formats() -> dict[str, Format]:
    """All kinds by name."""
    return {**own_graphs(), **benchmarks(), **models(), **folders(), **study(), **lists()}


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    try:
        yield path
    finally:
        shutil.rmtree(path)


def contents(path: Path) -> Files:
    """The files of a folder by their paths in it."""
    found = (Path(place) / name for place, _, names in os.walk(path) for name in names)
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(found)}


def dataset() -> Dataset:
    """Twelve nodes on a ring, with identifiers and a split."""
    rng, nodes = np.random.default_rng(0), torch.arange(NODES)
    x = torch.from_numpy(rng.normal(size=(NODES, 3)).astype(np.float32))
    ring = torch.stack([torch.cat([nodes, nodes.roll(1)]), torch.cat([nodes.roll(1), nodes])])
    return Dataset(
        "ring", x, nodes % 2, ring, class_names=("a", "b"),
        node_ids=np.array([f"n{node}" for node in range(NODES)]),
        split=Split(nodes[:4], nodes[4:8], nodes[8:], "made"),
    )  # fmt: skip


def own_graphs() -> dict[str, Format]:
    writers = {**graphs.WRITERS, **graphs.COLLECTIONS, "gz columns": _gzipped_nodes}
    found = {}
    for name, write in writers.items():
        with _folder() as folder:
            path = write(folder)
            place = str(path.relative_to(folder))
            files = contents(folder)
        found[name] = Format(files, _reads_own(place), (DataError,))
    return found


def _reads_own(place: str) -> Callable[[Path], object]:
    return lambda folder: read_own(folder / place).graph()


def _gzipped_nodes(folder: Path) -> Path:
    path = graphs.csv_folder(folder)
    (path / "nodes.csv").unlink()
    (path / "nodes.tsv.gz").write_bytes(
        gzip.compress(b"id\tf\tlabel\nann\t1\tx\nbob\t2\ty\nc,c\t3\tx\n", mtime=0)
    )
    return path


def lists() -> dict[str, Format]:
    """Edge lists and splits."""
    text = b"# two\n0 1 0.5\n1 2 1.5\n2 0 2\n"
    ids, parts = [f"n{n}" for n in range(NODES)], ["train", "val", "test"]
    rows = "".join(f"{name},{parts[number % 3]}\n" for number, name in enumerate(ids))
    numbers = np.arange(NODES).reshape(3, 4)
    arrays = npz(train=numbers[0], val=numbers[1], test=numbers[2])
    masks = {f"{part}_mask": np.eye(3, dtype=bool)[at].repeat(4) for at, part in enumerate(parts)}
    kinds = {"edge list": ("edges.txt", text), "edge list, gz": ("edges.csv.gz", b"0,1\n1,2\n")}
    kinds["edge list, gz"] = ("edges.csv.gz", gzip.compress(kinds["edge list, gz"][1], mtime=0))
    found = {
        name: Format({file: data}, _reads_edges(file), (ValueError, FileNotFoundError))
        for name, (file, data) in kinds.items()
    }
    splits = {
        "split.csv": f"id,split\n{rows}".encode(),
        "split.npz": arrays,
        "mask.npz": npz(**masks),
    }
    for file, data in splits.items():
        found[f"split {file}"] = Format({file: data}, _reads_split(file), (DataError,))
    return found


def _reads_edges(file: str) -> Callable[[Path], object]:
    return lambda folder: Graph.from_file(folder / file)


def _reads_split(file: str) -> Callable[[Path], object]:
    return lambda folder: read_split_file(dataset(), str(folder / file), 0)


def benchmarks() -> dict[str, Format]:
    """Files as they are released; pickles among them are decoded, not run."""

    def reads(read: Any, name: str, files: Files) -> Format:
        def all_of(folder: Path) -> object:  # those that are missing are downloaded
            return read(name, files | contents(folder)).graph()

        return Format(files, all_of, (DataError,))

    return {
        "planetoid": reads(read_citation, "cora", python2.tiny_cora()),
        "amazon": reads(read_amazon, "photo", {test_amazon.FILE: npz(**test_amazon.arrays())}),
        "ppi": reads(read_ppi, "ppi", {"ppi.zip": test_ppi.zipped(test_ppi.release())}),
    }


def models() -> dict[str, Format]:
    data, found = dataset(), {}
    parts = data.split.train, data.split.val
    for backbone in ("gcn", "gat"):
        model = NodeClassifier(backbone, hidden=8, epochs=1, patience=1)
        with _folder() as folder:
            model.fit(data.graph(), data.x, data.y, *parts).save(folder / "model.zip")
            found[f"model {backbone}"] = Format(
                contents(folder), _predict, (ValueError, FileNotFoundError)
            )
    with _folder() as folder:
        _train(folder)
        found["checkpoint"] = Format(contents(folder), _train, (CheckpointError,))
    return found


def _predict(folder: Path) -> object:
    data = dataset()
    return load_model(folder / "model.zip").predict_proba(data.graph(), data.x)


def _train(folder: Path) -> object:
    torch.manual_seed(0)
    model = build_model("gcn", "softmax", 5, 2, 3)
    checkpoint = Checkpoint(folder / "run.pt", "run", keep=True)
    return train(model, _problem(), Schedule(epochs=2, patience=2), None, checkpoint)


@cache
def _problem() -> Any:
    return small()


# Features of another number of columns, or that are not finite, do not fit the model.
UNFIT = (FolderError, BatchingError, NotFiniteError)


def folders() -> dict[str, Format]:
    """Graph folders, whole and with parts, and what is predicted from them."""
    data = dataset()
    fitted = [
        NodeClassifier(backbone, hidden=2, epochs=1, patience=1).fit(
            data.graph(), data.x, data.y, data.split.train, data.split.val
        )
        for backbone in ("gcn", "sage")
    ]

    def read(folder: Path) -> object:
        opened = open_folder(folder / "g")
        chances = [predict_folder(model, opened, scratch=folder) for model in fitted]
        return opened.dataset().graph(), opened.node, chances

    def verified(folder: Path) -> object:
        return open_folder(folder / "g", verify=True)

    found: dict[str, Format] = {}
    for name, part in (("graph folder", None), ("parts", torch.arange(NODES) % 3)):
        with _folder() as folder:
            write_folder(folder / "g", data, part=part)
            files = contents(folder)
        found[name] = Format(files, read, UNFIT)
    sparse = replace(data, x=SparseFeatures.from_dense(data.x.relu()))
    with _folder() as folder:
        write_folder(folder / "g", sparse)
        found["sparse folder"] = Format(contents(folder), read, UNFIT)
    found["verified folder"] = Format(found["parts"].files, verified, (FolderError,))
    return found


SETTINGS = b"""base = "default"
[default]
lr = 0.02
epochs = 50
scale = "rows"
[[rule]]
when = { backbone = ["gcn"], aggr = ["softmax"] }
start = 0.5
learn = true
per = "channel"
[search]
budget = 3
"""
SPACE = b"""[default]
lr = [0.01, 0.1]
dropout = [0.1, 0.5, 0.8]
hidden = [16, 64]
[[anchor]]
layers = 3
[[rule]]
when = { aggr = ["softmax"], metric = ["accuracy"] }
start = [0.0, 1.0]
"""


def study() -> dict[str, Format]:
    """Settings, search spaces, stores of runs and their exports."""
    rows = [result(n) for n in range(3)]
    outcomes = b"".join(_line(Outcome(Case(n, "wine"), [50.0], [51.0])) for n in range(2))
    found = {
        "settings": Format({"mine.toml": SETTINGS}, _settings, (SettingsError,)),
        "space": Format({"space.toml": SPACE}, _space, (SettingsError,)),
        "facts": Format({FILE: _line(Facts.of(dataset(), "given"))}, _graphs, (StoreError,)),
        "outcomes": Format({"outcomes.jsonl": outcomes}, _calibration, (DataError,)),
    }
    with _folder() as folder:
        store = Store(folder / "runs", durable=False)
        for one in rows:
            store.add(one)
        store.add(Result(failed(5), {}))
        store.close()
        found["store"] = Format(contents(folder), _store, (StoreError,))
        for suffix in ("jsonl", "parquet"):
            export_rows([one.row for one in rows], folder / f"rows.{suffix}")
            files = {f"rows.{suffix}": (folder / f"rows.{suffix}").read_bytes()}
            found[f"rows {suffix}"] = Format(files, _reads_rows(suffix), (StoreError,))
    return found


def _settings(folder: Path) -> object:
    read_rules.cache_clear()
    return read_settings(str(folder / "mine.toml"), "gcn", "softmax", "cora")


def _space(folder: Path) -> object:
    read_space.cache_clear()
    search = Search("gcn", "cora", "accuracy", budget=4, space_name=str(folder / "space.toml"))
    return search.trials("softmax")


def _line(facts: Any) -> bytes:
    return (json.dumps(asdict(facts)) + "\n").encode()


def _graphs(folder: Path) -> object:
    return read_facts(folder / "rows.jsonl")


def _calibration(folder: Path) -> object:
    return read_outcomes(folder / "outcomes.jsonl")


def _store(folder: Path) -> object:
    store = Store(folder / "runs", create=False)
    rows = store.rows()
    return [store.artefact(row.key) for row in rows], store.failures(), store.finished()


def _reads_rows(suffix: str) -> Callable[[Path], object]:
    return lambda folder: read_rows(folder / f"rows.{suffix}")

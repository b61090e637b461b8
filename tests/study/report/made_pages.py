"""A store for pages: runs on a small graph, whose names are an attack on the page."""

import dataclasses
from html.parser import HTMLParser

import numpy as np
import torch

from meanmax.data import Dataset, fingerprint
from meanmax.study.report.embeddings import Layout
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.page import content, write_report
from meanmax.study.runs.row import Result
from meanmax.study.settings.settings import settings_for
from meanmax.study.store.store import Store

from ..made_runs import failed, row

ATTACK = "<script>alert(1)</script>"
AGGRS = ("none", "lp", "softmax")
GAINS = {"none": 0.0, "lp": 1.0, "softmax": -2.0}
LETTERS = {"lp": "p", "softmax": "gamma"}
NODES = 12


def hostile_data():
    """Twelve nodes in a ring; every name is a script, and one ends the line for JavaScript."""
    source = torch.arange(NODES)
    target = (source + 1) % NODES
    return Dataset(
        name=ATTACK,
        x=torch.eye(NODES),
        y=source % 2,
        edge_index=torch.stack([torch.cat([source, target]), torch.cat([target, source])]),
        class_names=(ATTACK, "a & b \u2028"),
        node_ids=np.array([f"{ATTACK}{number}" for number in range(NODES)]),
    )


def run(number, aggr, split, *, data="cora", data_hash="d" * 20, score=80.0, **facts):
    """A row with the published settings on a split."""
    settings = settings_for("published", "gcn", aggr, data, facts.pop("overrides", None))
    made = {
        "aggr": aggr,
        "data": data,
        "data_hash": data_hash,
        "split_seed": split,
        "split_hash": f"split {split}",
        "settings": settings,
        "metrics": {"test_score": score, "val_score": 70.0, "all_score": score - 1},
        "learned": {f"layers.0.{LETTERS[aggr]}": [1.5]} if aggr in LETTERS else {},
        **facts,
    }
    return row(number, **made)


def arrays(aggr, epochs=300, nodes=NODES):
    """An artefact whose training loss is 1 / epoch."""
    epoch = np.arange(1, epochs + 1, dtype=np.float32)
    found = {"train_loss": 1 / epoch, "val_loss": 2 / epoch, "val_score": 100 - 50 / epoch}
    if aggr in LETTERS:
        found[f"learned/layers.0.{LETTERS[aggr]}"] = (1 + epoch / epochs)[:, None]
    found["prediction"] = np.zeros(nodes, np.int16)
    return found | {"embedding": np.zeros((nodes, 2), np.float16)}


def fill(folder, *, data="cora", aggrs=AGGRS, splits=6, **facts):
    """A store with runs of each aggregator on each split, whose gains are GAINS."""
    store = Store(folder)
    for place, aggr in enumerate(aggrs):
        for split in range(splits):
            score = 80.0 + split + GAINS[aggr] + 0.1 * split * place
            made = run(100 * place + split, aggr, split, data=data, score=score, **facts)
            store.add(Result(made, arrays(aggr)))
    return store


def hostile_store(folder):
    """Runs on the hostile data, one of them failed with a hostile error, with coordinates."""
    data = hostile_data()
    store = fill(folder, data=data.name, data_hash=fingerprint(data)[:20])
    broken = failed(900, data=data.name, data_hash=fingerprint(data)[:20], aggr="lp", split_seed=6)
    settings = settings_for("published", "gcn", "lp", data.name)
    broken = dataclasses.replace(broken, settings=settings, error=f"ValueError: {ATTACK}")
    store.add(Result(broken, {}))
    angle = np.linspace(0, 2 * np.pi, NODES, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    for made in store.rows():
        if made.split_seed == 0:
            path = Layout().file_of(folder / "derived", made.key)
            path.parent.mkdir(exist_ok=True)
            np.savez_compressed(path, coordinates=circle)
    return store, data


class Reader(HTMLParser):
    """Elements, texts and addresses of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.addresses = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.texts.append(data)


def page(folder, **options):
    return write_report(folder, **options).read_text("utf-8")


def shown(folder, **options):
    return content(Evidence.of(folder, tolerant=True), **options)

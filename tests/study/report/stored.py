"""Stores of runs that were made by hand: rows with the published settings, and small artefacts."""

import dataclasses

import numpy as np

from meanmax.data import fingerprint, load
from meanmax.study.runs.row import Result
from meanmax.study.settings.settings import settings_for
from meanmax.study.store.store import Store
from tests.study.rows import row

AGGRS = ("none", "lp", "poly", "softmax")
SYMBOLS = {"lp": "p", "poly": "alpha", "softmax": "gamma"}


def artefact(aggr, seed, *, nodes=34, epochs=6, heads=1):
    """Curves that fall, parameters that rise, and an embedding around two centres."""
    rng = np.random.default_rng(seed)
    curve = np.linspace(2, 0.5, epochs + seed).astype(np.float32) + AGGRS.index(aggr) / 10
    arrays = {"train_loss": curve, "val_loss": curve, "val_score": curve}
    arrays["embedding"] = rng.normal(size=(nodes, 4)).astype(np.float16)
    if aggr in SYMBOLS:
        course = np.linspace(1, 1.5, len(curve))[:, None] + np.arange(heads) / 10
        arrays[f"learned/layers.0.{SYMBOLS[aggr]}"] = course.astype(np.float32)
    return arrays


def fill(folder, *, data="cora", backbone="gcn", aggrs=AGGRS, splits=3, heads=1, **facts):
    """Adds runs on each split; the score of aggregator k is that of the baseline plus k."""
    store = Store(folder)
    if data == "karate":
        facts.setdefault("data_hash", fingerprint(load("karate"))[:20])
    for aggr in aggrs:
        for seed in range(splits):
            score = 80.0 + seed + AGGRS.index(aggr)
            maxness = {"layers.0": AGGRS.index(aggr) / 10, "layers.1": 0.0}
            made = row(aggr, seed, score, data=data, backbone=backbone, maxness=maxness, **facts)
            if made.settings_name == "default":
                settings = settings_for("default", backbone, aggr, data)
                made = dataclasses.replace(made, settings=settings)
            made = dataclasses.replace(made, key=f"{made.key}-{len(made.settings)}")
            store.add(Result(made, artefact(aggr, seed, heads=heads)))
    return store

"""Rows and results as runs give them, without any training."""

import numpy as np

from meanmax.study.runs.row import Result, Row


def row(number=0, **facts):
    """A row whose key and numbers follow from one number."""
    return Row(
        **{
            "key": f"{number:020x}",
            "status": "ok",
            "data": "karate",
            "data_hash": "d" * 20,
            "split": "balanced",
            "split_seed": number,
            "split_hash": f"{number:020d}",
            "seed": number,
            "backbone": "gcn",
            "aggr": "softmax",
            "settings_name": "published",
            "settings": {"lr": 0.01, "epochs": 5, "learn": True},
            "metrics": {"test_score": 70 + number / 3, "val_score": 60.0 + number},
            "learned": {"layers.0.gamma": [1.0 + number, 1.5]},
            "maxness": {"layers.0": 0.25, "layers.1": None},
            "best_epoch": 3,
            "epochs": 5,
            "seconds": 1.5,
            "threads": 1,
            "alone": True,
            "cpu": "a processor",
            "versions": {"torch": "2.5"},
            "commit": None,
            "finished": f"2026-01-01T00:00:{number % 60:02d}+00:00",
            **facts,
        }
    )


def result(number=0, **facts):
    """A row with an artefact of three epochs."""
    curve = np.arange(3, dtype=np.float32) + number
    arrays = {"train_loss": curve, "val_loss": curve / 2, "val_score": curve / 4}
    return Result(row(number, **facts), arrays | {"embedding": np.full((4, 2), number, np.float16)})


def failed(number=0, **facts):
    """A row of a run that failed."""
    empty = {"metrics": {}, "learned": {}, "maxness": {}, "best_epoch": -1, "epochs": 0}
    return row(number, **{"status": "failed", "error": "ValueError: no", **empty, **facts})

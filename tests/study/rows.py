"""Rows made by hand, for what is made from rows."""

from __future__ import annotations

from meanmax.study.runs.row import Row
from meanmax.study.settings.settings import settings_for


def row(aggr="none", seed=0, score=80.0, *, data="cora", backbone="gcn", **facts):
    settings = facts.pop("settings", None)
    if settings is None:
        settings = settings_for("published", backbone, aggr, data, facts.pop("overrides", None))
    given = {
        "key": f"{data}-{backbone}-{aggr}-{seed}-{facts.pop('tag', '')}",
        "status": "ok",
        "data": data,
        "data_hash": "d0",
        "split": "citation",
        "split_seed": seed,
        "split_hash": f"s{seed}",
        "seed": seed,
        "backbone": backbone,
        "aggr": aggr,
        "settings_name": "published",
        "settings": settings,
        "metrics": {"test_score": score, "all_score": score + 1, "val_score": score - 1},
        "seconds": 2.0 + seed,
    }
    return Row(**{**given, **facts})


def cora(aggr, scores, **facts):
    return [row(aggr, seed, score, **facts) for seed, score in enumerate(scores)]


def searched(aggr, scores, *, data="wine", backbone="gcn", metric="accuracy", **facts):
    """Rows with settings that were searched, a split for each score."""
    level = {"split": "balanced", "data_hash": f"d-{data}", "settings_name": "auto", **facts}
    val, maxness = level.pop("val", 0.0), level.pop("maxness", {})
    settings = {"metric": metric, "lr": 0.01, "epochs": 400}
    return [
        row(
            aggr,
            seed,
            score,
            data=data,
            backbone=backbone,
            settings=settings,
            metrics={"test_score": score, "val_score": score + val, f"test_{metric}": score},
            maxness=maxness,
            tag=level["split"],
            **level,
        )
        for seed, score in enumerate(scores)
    ]

r"""What :obj:`meanmax tune` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from meanmax.cli.tables import Grid
from meanmax.study.settings.search import Search
from meanmax.study.settings.tuning import (Tried, settled)

HOW_TO_READ = (
    "Scores are of validation nodes, mean ± standard deviation over splits. The best of many "
    "looks better than it is on the nodes that chose it: `meanmax compare --settings FILE` tells "
    "how it does on test nodes."
)


def tune_grid(
    search: Search, results: Mapping[str, Sequence[Tried]], chosen: Mapping[str, Tried]
) -> Grid:
    r"""A line for each method: what it started from, and what was chosen."""
    rows = []
    for aggr, own in results.items():
        one = chosen.get(aggr)
        settings = {} if one is None else settled(search, one.trial)
        rows.append(
            [
                aggr,
                str(len(own)),
                str(sum(trial.failed > 0 for trial in own)),
                _score(own[0]),
                _score(one),
                ", ".join(f"{name}={value}" for name, value in settings.items()) or "–",
            ]
        )
    title = f"{search.data}, {search.backbone}: settings searched on validation nodes"
    scores = [f"{search.settings_name}, val %", "chosen, val %"]
    headings = ["aggregator", "tried", "failed", *scores, "settings chosen"]
    return Grid(title, headings, rows, left=["aggregator", "settings chosen"])


def _score(one: Tried | None) -> str:
    if one is None or math.isnan(one.score):
        return "–"
    return f"{one.score:.2f}" + ("" if math.isnan(one.std) else f" ± {one.std:.2f}")

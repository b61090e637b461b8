r"""Accuracy against depth: the figure that the paper dropped.

Models have 2 to 8 layers without hidden activation, so that all that is not linear in them is the
aggregation. The published settings put the aggregator into the first layer alone; here it is in
every layer but the last (:obj:`nonlinear="hidden"`), or depth would add linear layers only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanmax.experiments.execute import DataRef
from meanmax.experiments.plan import Plan
from meanmax.experiments.row import Row
from meanmax.experiments.selection import scores, select
from meanmax.experiments.settings_files import settings_for
from meanmax.experiments.tables import AGGRS

DEPTHS = (2, 3, 4, 6, 8)
SETS = ("cora", "citeseer", "pubmed")
SPLITS = 5
SETTINGS = "published"


@dataclass(frozen=True)
class Depth:
    r"""One method at one depth on one data set.

    Args:
        data (str): The data set.
        aggr (str): The aggregator.
        layers (int): The depth.
        scores (tuple): Test scores in percent of the runs that ended well, by split.
        failed (int): How many runs did not.
    """

    data: str
    aggr: str
    layers: int
    scores: tuple[float, ...]
    failed: int

    @property
    def mean(self) -> float:
        r"""Over splits; NaN if there is no run."""
        return statistics.fmean(self.scores) if self.scores else float("nan")


def overrides(layers: int) -> dict[str, Any]:
    r"""What differs from the published settings at a depth.

    Example:
        >>> overrides(4)
        {'layers': 4, 'activation': 'none', 'nonlinear': 'hidden'}

    Args:
        layers (int): The depth.
    """
    return {"layers": layers, "activation": "none", "nonlinear": "hidden"}


def plans(
    data: Sequence[str] = SETS,
    *,
    backbone: str = "gcn",
    aggrs: Sequence[str] = AGGRS,
    depths: Sequence[int] = DEPTHS,
    splits: int = SPLITS,
    data_dir: Path | None = None,
) -> list[Plan]:
    r"""The runs, shallow ones first.

    Args:
        data (sequence, optional): The data sets. (default: Cora, Citeseer and Pubmed)
        backbone (str, optional): The backbone. (default: :obj:`"gcn"`)
        aggrs (sequence, optional): The aggregators. (default: the paper's)
        depths (sequence, optional): Numbers of layers. (default: 2, 3, 4, 6 and 8)
        splits (int, optional): How many splits. (default: :obj:`5`)
        data_dir (Path, optional): Where data are. (default: :obj:`None`)
    """
    folder = None if data_dir is None else str(data_dir.resolve())
    return [
        Plan(
            data=DataRef(name, folder),
            backbones=[backbone],
            aggrs=aggrs,
            splits=range(splits),
            settings_name=SETTINGS,
            overrides=overrides(layers),
        )
        for layers in depths
        for name in data
    ]


def by_depth(
    rows: Sequence[Row],
    data: str,
    *,
    backbone: str = "gcn",
    aggrs: Sequence[str] = AGGRS,
    depths: Sequence[int] = DEPTHS,
) -> list[Depth]:
    r"""What every method came to at every depth of which there are runs.

    Args:
        rows (sequence): All rows there are.
        data (str): The data set.
        backbone (str, optional): The backbone. (default: :obj:`"gcn"`)
        aggrs (sequence, optional): The aggregators. (default: the paper's)
        depths (sequence, optional): Numbers of layers. (default: 2, 3, 4, 6 and 8)
    """
    found = []
    for layers in depths:

        def wanted(backbone: str, aggr: str, data: str, layers: int = layers) -> dict[str, Any]:
            return settings_for(SETTINGS, backbone, aggr, data, overrides(layers))

        chosen = select(rows, data, wanted)
        for aggr in aggrs:
            own = chosen.of(backbone, aggr)
            if own:
                good = scores(own.values(), "test_score")
                listed = tuple(good[seed] for seed in sorted(good))
                found.append(Depth(data, aggr, layers, listed, len(own) - len(good)))
    return found

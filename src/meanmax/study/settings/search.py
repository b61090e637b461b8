r"""Settings to be tried: as many for each method, drawn at random from a stated space."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meanmax.study.stats.comparison import BASELINE
from meanmax.study.settings.rules import (SettingsError, packaged, ruled)
from meanmax.study.settings.settings import settings_for

_DRAWS = 100  # of an aggregator's own settings, until they are new


@dataclass(frozen=True)
class Trial:
    r"""One method with settings to be tried.

    Args:
        number (int): From 0, which has the settings of the file.
        aggr (str): The aggregator.
        settings (dict): All settings of the run.
    """

    number: int
    aggr: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Search:
    r"""A search for settings of one backbone on one data set.

    The first trial of each method has the settings of the file. Then trial :math:`i` of every
    method has the same draw of what concerns them all (widths, rates, dropout, decay), without
    repetition, and a draw of its own of what concerns its aggregator. A larger budget has the
    trials of a smaller one among its own.

    Args:
        backbone (str): The backbone.
        data (str): The data set.
        settings_name (str): The settings file to start from.
        budget (int): Trials of each method.
        seed (int): Of the draws.
        fixed (mapping): Settings that are the same in all trials.
    """

    backbone: str
    data: str
    settings_name: str = "tuned"
    budget: int = 20
    seed: int = 0
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def space(self, aggr: str) -> dict[str, list[Any]]:
        r"""The values of each setting that is searched for an aggregator."""
        found = ruled(packaged("search"), self.backbone, aggr, self.data)
        return {name: values for name, values in found.items() if name not in self.fixed}

    def trials(self, aggr: str) -> list[Trial]:
        r"""The trials of an aggregator, the baseline's too."""
        common = self._common()
        own = {n: values for n, values in self.space(aggr).items() if n not in common[0]}
        draw = random.Random(f"{self.seed} {self.backbone} {aggr}")
        found = [self._settings(aggr, {})]
        seen = {json.dumps(found[0], sort_keys=True)}
        for shared in common[: self.budget - 1]:
            for _ in range(_DRAWS):
                drawn = {name: draw.choice(values) for name, values in own.items()}
                settings = self._settings(aggr, {**shared, **drawn})
                if (text := json.dumps(settings, sort_keys=True)) not in seen:
                    seen.add(text)
                    found.append(settings)
                    break
        return [Trial(number, aggr, settings) for number, settings in enumerate(found)]

    def _common(self) -> Sequence[dict[str, Any]]:
        r"""What all methods share, for every trial but the first."""
        space = self.space(BASELINE)
        start = self._settings(BASELINE, {})
        combined = [dict(zip(space, v, strict=True)) for v in itertools.product(*space.values())]
        left = [one for one in combined if any(start.get(n) != one[n] for n in one)]
        if self.budget > len(left) + 1:
            raise SettingsError(
                f"there are {len(left) + 1} different settings of the baseline to try "
                f"(got a budget of {self.budget}): ask for no more than that"
            )
        random.Random(f"{self.seed}").shuffle(left)
        return left or [{}]

    def _settings(self, aggr: str, drawn: Mapping[str, Any]) -> dict[str, Any]:
        overrides = {**drawn, **self.fixed}
        return settings_for(self.settings_name, self.backbone, aggr, self.data, overrides)

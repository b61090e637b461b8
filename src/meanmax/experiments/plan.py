r"""Runs that are to be made: every combination, on the same splits for all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanmax.data import Dataset, fingerprint, make_split
from meanmax.data.splits import default_scheme
from meanmax.experiments.execute import DataRef, Task
from meanmax.experiments.run_spec import RunSpec, split_hash
from meanmax.experiments.settings_files import settings_for


@dataclass(frozen=True)
class Plan:
    r"""Runs on one data set, each method on each of the same splits.

    Args:
        data (DataRef): The data.
        backbones (sequence): The backbones.
        aggrs (sequence): The aggregators.
        splits (sequence): The seeds of the splits, which are those of the weights too.
        settings_name (str): The settings file.
        scheme (str, optional): The scheme of the splits; :obj:`None` for the data set's own.
        overrides (mapping): Settings that win over the file's.
    """

    data: DataRef
    backbones: Sequence[str]
    aggrs: Sequence[str]
    splits: Sequence[int]
    settings_name: str
    scheme: str | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def tasks(self, dataset: Dataset) -> list[Task]:
        r"""The runs, split by split, so that what is there of a table can be compared.

        Args:
            dataset (Dataset): The data, loaded.
        """
        scheme = self.scheme or default_scheme(dataset)
        hashed = fingerprint(dataset)[:20]
        splits = {seed: split_hash(make_split(dataset, scheme, seed)) for seed in self.splits}
        found = []
        for backbone in self.backbones:
            for seed, part in splits.items():
                for aggr in self.aggrs:
                    settings = self.settings(backbone, aggr, dataset.name)
                    spec = RunSpec(
                        data=dataset.name,
                        data_hash=hashed,
                        split=_without_folder(scheme),
                        split_seed=seed,
                        split_hash=part,
                        seed=seed,
                        backbone=backbone,
                        aggr=aggr,
                        settings=settings,
                    )
                    found.append(Task(spec, self.data, self.settings_name, scheme=scheme))
        return found

    def settings(self, backbone: str, aggr: str, data: str) -> dict[str, Any]:
        r"""The settings of one method."""
        return settings_for(self.settings_name, backbone, aggr, data, self.overrides)


def _without_folder(scheme: str) -> str:
    r"""A split file by its name alone: where it lay says nothing."""
    kind, _, path = scheme.partition(":")
    return f"{kind}:{Path(path).name}" if path else scheme

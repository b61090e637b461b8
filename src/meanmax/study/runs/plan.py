r"""Planned runs: every combination of method and split, on the same splits for all methods."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanmax.study.runs.prepared_data import keep_loaded
from meanmax.study.runs.row import RunSpec, split_hash
from meanmax.study.settings.settings import SettingsError, current_name, settings_for
from meanmax.study.stats.cells import without_folder
from meanmax.train.settings import Settings

if TYPE_CHECKING:  # commands that only print tables do not wait for torch
    from meanmax.data import Dataset, Split


POOLED = ", pool"  # after the scheme of splits that draw from a development pool


@dataclass(frozen=True)
class DataRef:
    r"""Where a worker finds the data."""

    source: str  # a name or a path
    data_dir: str | None = None  # a folder to look in first
    directed: bool = False  # whether the edges of one's own graph keep their direction
    one_hot: tuple[str, ...] = ()  # columns of categories of one's own nodes
    impute: str | None = None  # what missing features of one's own nodes are filled with
    task: str | None = None  # what the labels of one's own nodes are declared to be
    copy: str | None = field(default=None, compare=False)  # the file with the loaded data


@dataclass(frozen=True)
class Task:
    r"""A run, and how a worker executes it."""

    spec: RunSpec
    data: DataRef
    split: Split
    settings_name: str  # the settings file that it was planned from
    threads: int = 1
    alone: bool = False  # whether no other run is executed at the same time
    checkpoints: str | None = None  # their folder
    brief: bool = False  # whether only validation scores are wanted, without any artefact
    trained: str | None = None  # the folder of states that brief runs leave to be continued
    largest: float = math.inf  # bytes of a state beyond which none is left
    begun: int = 0  # epochs that such a run has probably made already


@dataclass(frozen=True)
class Plan:
    r"""Runs on one data set, each method on each of the same splits."""

    data: DataRef
    backbones: Sequence[str]
    aggrs: Sequence[str]
    splits: Sequence[int]  # the seeds of the splits, also used for the weights
    settings_name: str
    scheme: str | None = None  # of the splits; None for the data set's own
    overrides: Mapping[str, Any] = field(default_factory=dict)
    pool: bool = False  # whether training and validation nodes come from one development pool

    def tasks(self, dataset: Dataset) -> list[Task]:
        r"""The runs, split by split, so that an unfinished table can already be compared."""
        from meanmax.data import development_pool, fingerprint, make_split
        from meanmax.data.splits import default_scheme

        scheme = self.scheme or default_scheme(dataset)
        if scheme.startswith("file:"):
            scheme = f"file:{Path(scheme.removeprefix('file:')).resolve()}"
        hashed = fingerprint(dataset)[:20]
        keep_loaded(self.data, dataset, hashed)
        name = self.name_of(dataset)
        pool = development_pool(dataset, scheme) if self.pool else None
        splits = {seed: make_split(dataset, scheme, seed, pool=pool) for seed in self.splits}
        hashes = {seed: split_hash(split) for seed, split in splits.items()}
        return [
            Task(
                RunSpec(
                    data=name,
                    data_hash=hashed,
                    split=f"{scheme}{POOLED}" if self.pool else without_folder(scheme),
                    split_seed=seed,
                    split_hash=hashes[seed],
                    seed=seed,
                    backbone=backbone,
                    aggr=aggr,
                    settings=self.settings(backbone, aggr, name),
                ),
                self.data,
                splits[seed],
                current_name(Path(self.settings_name).name),
            )
            for backbone in self.backbones
            for seed in hashes
            for aggr in self.aggrs
        ]

    def name_of(self, dataset: Dataset) -> str:
        r"""The name of the data in rows. One's own graph never has the name of a benchmark."""
        from meanmax.data import CATALOG
        from meanmax.data.fetch.catalog import is_name

        own = not is_name(self.data.source)
        return f"{dataset.name} (own)" if own and dataset.name in CATALOG else dataset.name

    def without_effect(self, dataset: Dataset) -> list[str]:
        r"""The overrides that none of the methods uses."""
        name = self.name_of(dataset)
        methods = itertools.product(self.backbones, self.aggrs)
        used = set().union(*(self.settings(*method, name) for method in methods))
        return [s for s, value in self.overrides.items() if s not in used and value is not None]

    def settings(self, backbone: str, aggr: str, data: str) -> dict[str, Any]:
        r"""The settings of one method."""
        return settings_for(self.settings_name, backbone, aggr, data, self.overrides)


def settings_text(settings_name: str, overrides: Mapping[str, Any], scheme: str | None) -> str:
    r"""Settings in words: the file, what replaces its settings, and the splits if given."""
    changed = [f"{name}={value}" for name, value in overrides.items()]
    changed += [] if scheme is None else [f"splits {without_folder(scheme)}"]
    return ", ".join([Path(settings_name).name, *changed])


def reference(source: str, data_dir: Path | None, **own: Any) -> DataRef:
    r"""A reference with absolute paths, since workers may run in another folder; :obj:`own` are the
    options for one's own graph.
    """
    from meanmax.data.fetch.catalog import is_name

    if not is_name(source) and Path(source).exists():
        source = str(Path(source).resolve())
    return DataRef(source, str(data_dir.resolve()) if data_dir else None, **own)


def check_splits(tasks: Sequence[Task], dataset: Dataset) -> None:
    r"""Raises a :class:`DataError` if a split has no validation or no test nodes, or trains on one
    class alone.
    """
    from meanmax.data import DataError

    level = dataset.level
    for split in {id(task.split): task.split for task in tasks}.values():
        for part, nodes in (("validation", split.val), ("test", split.test)):
            if nodes.numel() == 0:
                raise DataError(
                    f"split '{split.name}' of '{dataset.name}' has no {part} {level}s: models are "
                    f"selected on validation {level}s and scored on test {level}s. Add some, or "
                    f"choose another scheme with --split"
                )
        check_classes(split, dataset)


def check_classes(split: Split, dataset: Dataset) -> None:
    r"""Raises a :class:`DataError` if a split trains on one class alone."""
    import torch

    from meanmax.data import DataError

    known = torch.unique(dataset.y[split.train])
    if dataset.task == "multiclass" and len(known) == 1:
        raise DataError(
            f"split '{split.name}' of '{dataset.name}' trains on the one class "
            f"'{dataset.class_names[int(known[0])]}': label more {dataset.level}s of the others, "
            f"or choose another scheme with --split"
        )


def check_methods(tasks: Sequence[Task], dataset: Dataset) -> None:
    r"""Raises a :class:`SettingsError` if a method cannot be built or trained with its settings."""
    import torch

    from meanmax.graph import Graph

    if dataset.task == "multiclass" and dataset.num_classes < 2:
        raise SettingsError(
            f"'{dataset.name}' has only one class ({', '.join(dataset.class_names)}): there is "
            f"nothing to classify"
        )
    specs = [task.spec for task in tasks]
    methods = {(spec.backbone, spec.aggr, json.dumps(spec.settings)): spec for spec in specs}
    pair = Graph.from_edge_index([[0, 1], [1, 0]], 2)
    for (backbone, aggr, _), spec in methods.items():
        try:
            settings = Settings.from_dict(backbone, aggr, spec.settings)
            settings.check_task(dataset.task)
            settings.make_schedule()
            with torch.random.fork_rng(devices=[]):
                settings.build_model(4, 2, num_nodes=2, graph=pair, level=dataset.level)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{backbone}+{aggr}: {error}") from error

r"""Planned runs: every combination of method and split, on the same splits for all methods."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanmax.study.runs.prepared_data import keep_loaded
from meanmax.study.runs.row import RunSpec, split_hash
from meanmax.study.settings.settings import SettingsError, current_name, settings_for
from meanmax.study.stats.cells import without_folder
from meanmax.train.settings import Settings

if TYPE_CHECKING:  # commands that only print tables do not wait for torch
    from meanmax.data import Dataset, Split


@dataclass(frozen=True)
class DataRef:
    r"""Where a worker finds the data.

    Args:
        source (str): A name or a path.
        data_dir (str, optional): A folder to look in first.
        directed (bool): Whether the edges of one's own graph keep their direction.
        copy (str, optional): The file with the loaded data. (default: :obj:`None`)
    """

    source: str
    data_dir: str | None = None
    directed: bool = False
    copy: str | None = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True)
class Task:
    r"""A run, and how a worker executes it.

    Args:
        spec (RunSpec): The run.
        data (DataRef): Its data.
        split (Split): Its split.
        settings_name (str): The settings file that it was planned from.
        threads (int): The number of threads.
        alone (bool): Whether no other run is executed at the same time.
        checkpoints (str, optional): The folder of checkpoints; :obj:`None` for none.
    """

    spec: RunSpec
    data: DataRef
    split: Split
    settings_name: str
    threads: int = 1
    alone: bool = False
    checkpoints: str | None = None


@dataclass(frozen=True)
class Plan:
    r"""Runs on one data set, each method on each of the same splits.

    Args:
        data (DataRef): The data.
        backbones (sequence): The backbones.
        aggrs (sequence): The aggregators.
        splits (sequence): The seeds of the splits, also used for the weights.
        settings_name (str): The settings file.
        scheme (str, optional): The scheme of the splits; :obj:`None` for the data set's own.
        overrides (mapping): Settings that replace those of the file.
    """

    data: DataRef
    backbones: Sequence[str]
    aggrs: Sequence[str]
    splits: Sequence[int]
    settings_name: str
    scheme: str | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def tasks(self, dataset: Dataset) -> list[Task]:
        r"""The runs, split by split, so that an unfinished table can already be compared."""
        from meanmax.data import fingerprint, make_split
        from meanmax.data.splits import default_scheme

        scheme = _absolute(self.scheme) or default_scheme(dataset)
        hashed = fingerprint(dataset)[:20]
        keep_loaded(self.data, dataset, hashed)
        name = self.name_of(dataset)
        splits = {seed: make_split(dataset, scheme, seed) for seed in self.splits}
        hashes = {seed: split_hash(split) for seed, split in splits.items()}
        return [
            Task(
                RunSpec(
                    data=name,
                    data_hash=hashed,
                    split=without_folder(scheme),
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
        used = {
            setting
            for backbone in self.backbones
            for aggr in self.aggrs
            for setting in self.settings(backbone, aggr, name)
        }
        return [s for s, value in self.overrides.items() if s not in used and value is not None]

    def settings(self, backbone: str, aggr: str, data: str) -> dict[str, Any]:
        r"""The settings of one method."""
        return settings_for(self.settings_name, backbone, aggr, data, self.overrides)


def reference(source: str, data_dir: Path | None, directed: bool = False) -> DataRef:
    r"""A reference with absolute paths, since workers may run in another folder.

    Args:
        source (str): A name or a path.
        data_dir (Path, optional): A folder to look in first.
        directed (bool): Whether the edges of one's own graph keep their direction.
    """
    from meanmax.data.fetch.catalog import is_name

    if not is_name(source) and Path(source).exists():
        source = str(Path(source).resolve())
    return DataRef(source, str(data_dir.resolve()) if data_dir else None, directed)


def _absolute(scheme: str | None) -> str | None:
    if scheme is None or not scheme.startswith("file:"):
        return scheme
    return f"file:{Path(scheme.removeprefix('file:')).resolve()}"


def check_splits(tasks: Sequence[Task], dataset: Dataset) -> None:
    r"""Raises a :class:`DataError` if a split has no validation or no test nodes."""
    from meanmax.data import DataError

    for split in {id(task.split): task.split for task in tasks}.values():
        for part, nodes in (("validation", split.val), ("test", split.test)):
            if nodes.numel() == 0:
                raise DataError(
                    f"split '{split.name}' of '{dataset.name}' has no {part} nodes: models are "
                    f"selected on validation nodes and scored on test nodes. Add some, or choose "
                    f"another scheme with --split"
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
    methods = {
        (spec.backbone, spec.aggr, json.dumps(spec.settings)): spec
        for spec in (task.spec for task in tasks)
    }
    pair = Graph.from_edge_index([[0, 1], [1, 0]], 2)
    for (backbone, aggr, _), spec in methods.items():
        try:
            settings = Settings.from_dict(backbone, aggr, spec.settings)
            settings.make_schedule()
            with torch.random.fork_rng(devices=[]):
                settings.build_model(4, 2, num_nodes=2, graph=pair)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{backbone}+{aggr}: {error}") from error

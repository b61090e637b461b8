r"""Runs that are to be made: every combination, on the same splits for all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from meanmax.data import CATALOG, DataError, Dataset, fingerprint, make_split
from meanmax.data.loading import is_name
from meanmax.data.splits import default_scheme
from meanmax.graph import Graph
from meanmax.study.runs.execute import DataRef, Task, params_of
from meanmax.study.runs.row import RunSpec, split_hash
from meanmax.study.settings.settings import SettingsError, settings_for
from meanmax.study.stats.cells import without_folder
from meanmax.train.classifier import check_parameters, model_of, schedule_of


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
        scheme = _whole(self.scheme) or default_scheme(dataset)
        hashed = fingerprint(dataset)[:20]
        name = self.name_of(dataset)
        named = Path(self.settings_name).name  # where a file lay says nothing
        splits = {seed: split_hash(make_split(dataset, scheme, seed)) for seed in self.splits}
        found = []
        for backbone in self.backbones:
            for seed, part in splits.items():
                for aggr in self.aggrs:
                    settings = self.settings(backbone, aggr, name)
                    spec = RunSpec(
                        data=name,
                        data_hash=hashed,
                        split=without_folder(scheme),
                        split_seed=seed,
                        split_hash=part,
                        seed=seed,
                        backbone=backbone,
                        aggr=aggr,
                        settings=settings,
                    )
                    found.append(Task(spec, self.data, named, scheme=scheme))
        return found

    def name_of(self, dataset: Dataset) -> str:
        r"""What rows call the data: a graph of one's own is told from a set of the same name."""
        own = not is_name(self.data.source)
        return f"{dataset.name} (own)" if own and dataset.name in CATALOG else dataset.name

    def without_effect(self, dataset: Dataset) -> list[str]:
        r"""The overrides that none of the methods has a use for."""
        used = {
            name
            for backbone in self.backbones
            for aggr in self.aggrs
            for name in self.settings(backbone, aggr, self.name_of(dataset))
        }
        return [
            name for name, value in self.overrides.items() if name not in used and value is not None
        ]

    def settings(self, backbone: str, aggr: str, data: str) -> dict[str, Any]:
        r"""The settings of one method."""
        return settings_for(self.settings_name, backbone, aggr, data, self.overrides)


def reference(source: str, data_dir: Path | None, directed: bool = False) -> DataRef:
    r"""The data for workers, which may run in another folder.

    Args:
        source (str): A name or a path.
        data_dir (Path, optional): A folder to look in first.
        directed (bool): Whether the edges of one's own graph keep their direction.
    """
    if not is_name(source) and Path(source).exists():
        source = str(Path(source).resolve())
    return DataRef(source, str(data_dir.resolve()) if data_dir else None, directed)


def _whole(scheme: str | None) -> str | None:
    r"""A split file by its whole path, since workers may be in another folder."""
    if scheme is None or not scheme.startswith("file:"):
        return scheme
    return f"file:{Path(scheme.removeprefix('file:')).resolve()}"


def check_splits(tasks: Sequence[Task], dataset: Dataset) -> None:
    r"""A :class:`DataError` if a split has no nodes to choose or to judge models by.

    Args:
        tasks (sequence): Runs on one data set.
        dataset (Dataset): The data.
    """
    for scheme, seed in {(task.scheme, task.spec.split_seed) for task in tasks}:
        split = make_split(dataset, scheme, seed)
        for part, nodes in (("validation", split.val), ("test", split.test)):
            if nodes.numel() == 0:
                raise DataError(
                    f"split '{split.name}' of '{dataset.name}' has no {part} nodes: models are "
                    f"chosen on validation nodes and judged on test nodes. Add some, or choose "
                    f"another scheme with --split"
                )


def check_methods(tasks: Sequence[Task], dataset: Dataset) -> None:
    r"""A :class:`SettingsError` if a method cannot be built or trained with its settings.

    Args:
        tasks (sequence): Runs on one data set.
        dataset (Dataset): The data.
    """
    if dataset.task == "multiclass" and dataset.num_classes < 2:
        raise SettingsError(
            f"'{dataset.name}' has one class only ({', '.join(dataset.class_names)}): there is "
            f"nothing to tell apart"
        )
    methods = {
        (spec.backbone, spec.aggr, json.dumps(spec.settings)): spec
        for spec in (task.spec for task in tasks)
    }
    pair = Graph.from_edge_index([[0, 1], [1, 0]], 2)
    for (backbone, aggr, _), spec in methods.items():
        try:
            params = params_of(spec)
            check_parameters(params)
            schedule_of(params)
            with torch.random.fork_rng(devices=[]):
                model_of(params, 4, 2, num_nodes=2, graph=pair)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"{backbone}+{aggr}: {error}") from error

r"""What can be known to be wrong before the first run."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from meanmax.data import (DataError, Dataset, make_split)
from meanmax.study.runs.classifier_of import params_of
from meanmax.study.runs.execute import Task
from meanmax.study.settings.settings import SettingsError
from meanmax.graph import Graph
from meanmax.train.classifier_model import (check_parameters, model_of, schedule_of)


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

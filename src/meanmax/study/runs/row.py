r"""The outcome of a run: one row of facts, and what is too big for a row."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from meanmax.data.dataset import Split

Status: TypeAlias = Literal["ok", "diverged", "failed"]
Artefact: TypeAlias = dict[str, np.ndarray]

PLAIN = (
    "key",
    "attempt",
    "status",
    "error",
    "data",
    "data_hash",
    "split",
    "split_seed",
    "split_hash",
    "seed",
    "backbone",
    "aggr",
    "settings_name",
    "best_epoch",
    "epochs",
    "seconds",
    "threads",
    "alone",
    "cpu",
    "commit",
    "finished",
)
NESTED = ("settings", "metrics", "learned", "maxness", "versions")


@dataclass(frozen=True)
class Row:
    r"""One run.

    Args:
        key (str): The run; see :class:`~meanmax.study.runs.row.RunSpec`.
        status (str): :obj:`"ok"`; :obj:`"diverged"` if a loss was no longer finite;
            :obj:`"failed"` for any other error.
        data (str): The data set.
        data_hash (str): The fingerprint of the prepared data.
        split (str): The scheme of the split.
        split_seed (int): Its seed.
        split_hash (str): The hash of the split.
        seed (int): Of weights, dropout and batches.
        backbone (str): The backbone.
        aggr (str): The aggregator.
        settings_name (str): Which settings file it was planned from.
        settings (dict): All settings that the run depends on.
        metrics (dict): Scores in percent and losses by name.
        learned (dict): The learned parameters of the chosen epoch.
        maxness (dict): The mean over channels of maxness, by layer.
        best_epoch (int): The epoch that validation chose, from 0.
        epochs (int): How many epochs there were.
        seconds (float): The time of training.
        threads (int): Threads of the run.
        alone (bool): Whether nothing else was running as far as is known: times of other rows are
            not comparable.
        cpu (str): The processor.
        versions (dict): Of libraries.
        commit (str, optional): Of the checkout.
        finished (str): When, in UTC.
        error (str, optional): What went wrong.
        attempt (int): Counts the attempts at one run, from 0.
    """

    key: str
    status: Status
    data: str
    data_hash: str
    split: str
    split_seed: int
    split_hash: str
    seed: int
    backbone: str
    aggr: str
    settings_name: str
    settings: dict[str, Any]
    metrics: dict[str, float] = field(default_factory=dict)
    learned: dict[str, list[float]] = field(default_factory=dict)
    maxness: dict[str, float | None] = field(default_factory=dict)
    best_epoch: int = -1
    epochs: int = 0
    seconds: float = 0.0
    threads: int = 0
    alone: bool = False
    cpu: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    finished: str = ""
    error: str | None = None
    attempt: int = 0

    def to_json(self) -> str:
        r"""One line of JSON."""
        facts = {name: getattr(self, name) for name in (*PLAIN, *NESTED)}
        return json.dumps(facts, sort_keys=True, allow_nan=False)

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Row:
        r"""A row from what :meth:`to_json` has written; unknown facts are an error."""
        known = {item.name for item in dataclasses.fields(cls)}
        if unknown := set(facts) - known:
            raise ValueError(f"a row has unknown facts ({', '.join(sorted(unknown))})")
        return cls(**facts)


@dataclass(frozen=True, eq=False)
class Result:
    r"""A row and its artefact.

    Args:
        row (Row): The row.
        artefact (dict): Arrays by name; empty for a run that did not end well.
    """

    row: Row
    artefact: Artefact


def plain(value: Any) -> Any:
    r"""The same with :obj:`None` for numbers that are not finite, however deep.

    Example:
        >>> plain({"mean": float("nan"), "ends": (1.0, float("inf"))})
        {'mean': None, 'ends': [1.0, None]}
    """
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class RunSpec:
    r"""One model on one split of one data set, from one seed, with its settings.

    Args:
        data (str): The name of the data set.
        data_hash (str): The fingerprint of the prepared data.
        split (str): The scheme of the split.
        split_seed (int): Its seed, or the row of a split file.
        split_hash (str): The hash of which nodes train, validate and test.
        seed (int): Of weights, dropout and the order of batches.
        backbone (str): The backbone.
        aggr (str): The aggregator; :obj:`"none"` for the backbone's own.
        settings (dict): What :func:`~meanmax.study.settings.settings.settings_for` gives.
    """

    data: str
    data_hash: str
    split: str
    split_seed: int
    split_hash: str
    seed: int
    backbone: str
    aggr: str
    settings: dict[str, Any]

    @cached_property
    def key(self) -> str:
        r"""A name for the run: equal exactly if everything but names of data and scheme is."""
        facts = asdict(self)
        del facts["data"], facts["split"], facts["split_seed"]
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        return f"{self.backbone}+{self.aggr} on {self.data}, split {self.split_seed}"


def split_hash(split: Split) -> str:
    r"""The hash of which nodes are in which part of a split."""
    digest = hashlib.sha256()
    for part in (split.train, split.val, split.test):
        digest.update(part.numel().to_bytes(8, "little"))
        digest.update(part.sort().values.numpy().astype("<i8").tobytes())
    return digest.hexdigest()[:20]

r"""A run: what specifies it, and its outcome as one row of facts.

The fields of :class:`Row` are the schema of a row. The columns of the database and of exported
files, and the checks of rows that are read, are derived from them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from meanmax.names import USUAL_METRIC
from meanmax.study.settings.settings import current_name

if TYPE_CHECKING:
    import numpy as np

    from meanmax.data.dataset import Split

Status: TypeAlias = Literal["ok", "diverged", "failed"]
Artefact: TypeAlias = "dict[str, np.ndarray]"


@dataclass(frozen=True)
class Run:
    r"""One model on one split of one data set, from one seed, with its settings."""

    data: str
    data_hash: str  # the fingerprint of the prepared data
    split: str  # the scheme
    split_seed: int  # or the row of a split file
    split_hash: str  # of the training, validation and test nodes
    seed: int  # of weights, dropout and the order of batches
    backbone: str
    aggr: str  # "none" for the backbone's own
    settings: dict[str, Any]  # of meanmax.study.settings.settings.settings_for

    def __str__(self) -> str:
        return f"{self.backbone}+{self.aggr} on {self.data}, split {self.split_seed}"


class RunSpec(Run):
    r"""A run that is identified by its :attr:`key`."""

    @cached_property
    def key(self) -> str:
        r"""A hash of everything but the names of the data and of the scheme."""
        facts = asdict(self)
        del facts["data"], facts["split"], facts["split_seed"]
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True, kw_only=True)
class Row(Run):
    r"""A run with its outcome.

    Metrics have the names :obj:`{part}_{metric}`, such as :obj:`test_roc_auc`: all of
    :obj:`meanmax.names.METRICS` that fit the task, for the parts :obj:`val` and :obj:`test`; those
    that are not defined for the nodes, such as ROC AUC of one class, are left out.
    :obj:`{part}_score` is the one that the setting :obj:`metric` names, also for :obj:`train` and
    :obj:`all` (every labelled node): the accuracy, micro-F1 or :math:`R^2` unless it is given.
    Metrics of classes and labels are in percent, those of numbers (:math:`R^2`, :obj:`mse`,
    :obj:`mae`) are as they are. There are also :obj:`train_loss`, :obj:`val_loss` and the k-means
    scores of classes. Rows of early versions have no :obj:`{part}_{metric}`.

    The status is :obj:`"diverged"` if a loss was no longer finite, and :obj:`"failed"` for any
    other error.
    """

    key: str  # of the RunSpec
    status: Status
    settings_name: str  # the settings file that it was planned from
    best_epoch: int = -1  # selected on validation nodes, from 0
    epochs: int = 0
    seconds: float = 0.0  # of training
    threads: int = 0
    alone: bool = False  # whether nothing else was running, so that times are comparable
    cpu: str = ""
    commit: str | None = None
    finished: str = ""  # the time of the end, in UTC
    metrics: dict[str, float] = field(default_factory=dict)  # by name, see above
    learned: dict[str, list[float]] = field(default_factory=dict)  # at the selected epoch
    maxness: dict[str, float | None] = field(default_factory=dict)  # means over channels, by layer
    versions: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    attempt: int = 0  # earlier attempts at the run

    @property
    def metric(self) -> str | None:
        r"""The name of the metric that the scores are of; :obj:`None` if a row of an early version
        does not tell.
        """
        usual = (name for name in USUAL_METRIC.values() if f"test_{name}" in self.metrics)
        given: str | None = self.settings.get("metric")
        return given or next(usual, None)

    def to_json(self) -> str:
        r"""One line of JSON."""
        return json.dumps(vars(self), sort_keys=True, allow_nan=False)

    def to_flat(self) -> dict[str, Any]:
        r"""The facts by column, with dictionaries as JSON text."""
        facts = {name: getattr(self, name) for name in COLUMNS}
        return facts | {name: json.dumps(facts[name], sort_keys=True) for name in NESTED}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Row:
        r"""Makes a row from the facts in a file. A :obj:`ValueError` names a fact that is unknown,
        missing or of the wrong type.
        """
        if unknown := set(facts) - set(COLUMNS):
            raise ValueError(f"a row has unknown facts ({', '.join(sorted(unknown))})")
        if missing := [name for name in COLUMNS if name in _REQUIRED - set(facts)]:
            raise ValueError(f"a row has no '{missing[0]}'")
        for name, value in facts.items():
            if type(value) not in TYPES[name]:
                wanted = " or ".join(kind.__name__ for kind in TYPES[name])
                raise ValueError(f"'{name}' is {value!r}, not {wanted}")
        if (status := facts["status"]) not in get_args(Status):
            raise ValueError(f"'status' is {status!r}, not one of {', '.join(get_args(Status))}")
        for name, value in facts.get("metrics", {}).items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"metric '{name}' is {value!r}, not a number")
        return cls(**facts | {"settings_name": current_name(facts["settings_name"])})

    @classmethod
    def from_flat(cls, flat: dict[str, Any]) -> Row:
        r"""Makes a row from what :meth:`to_flat` returned."""
        texts = {name: flat[name] for name in NESTED if isinstance(flat.get(name), str)}
        return cls.from_dict(flat | {name: json.loads(text) for name, text in texts.items()})


def _types(hint: Any) -> tuple[type, ...]:
    r"""The types of the values of a column."""
    kinds = {dict: (dict,), Literal: (str,)}
    if get_origin(hint) in kinds:
        return kinds[get_origin(hint)]
    return (float, int) if hint is float else get_args(hint) or (hint,)


_REQUIRED = {f.name for f in dataclasses.fields(Row) if f.default is f.default_factory}
_HINTS = {name: _types(hint) for name, hint in get_type_hints(Row).items()}
NESTED = tuple(name for name, kinds in _HINTS.items() if dict in kinds)
_FIRST = ("key", "attempt", "status", "error")
COLUMNS = (*_FIRST, *(name for name in _HINTS if name not in (*_FIRST, *NESTED)), *NESTED)
r"""The facts in the order of tables, dictionaries last."""
TYPES = {name: _HINTS[name] for name in COLUMNS}
r"""The types that a column may hold; the first one is the usual one."""


@dataclass(frozen=True, eq=False)
class Result:
    r"""A row and its artefact: arrays by name, empty for a run that is not :obj:`"ok"`."""

    row: Row
    artefact: Artefact


def json_safe(value: Any) -> Any:
    r"""The same value for strict JSON: dataclasses and named tuples as dictionaries, numbers that
    are not finite as :obj:`None`.

    Example:
        >>> json_safe({"mean": float("nan"), "ends": (1.0, float("inf"))})
        {'mean': None, 'ends': [1.0, None]}
    """
    if dataclasses.is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: json_safe(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def split_hash(split: Split) -> str:
    r"""The hash of the training, validation and test nodes of a split."""
    digest = hashlib.sha256()
    for part in (split.train, split.val, split.test):
        digest.update(part.numel().to_bytes(8, "little"))
        digest.update(part.sort().values.numpy().astype("<i8").tobytes())
    return digest.hexdigest()[:20]

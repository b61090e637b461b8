r"""Settings of a model and its training, from a file, a stored row or a classifier's parameters."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from meanmax.names import LEARNED, METRICS, PYG_BASELINES, STORED_OPTION_NAMES, Level, Task
from meanmax.train.metrics import check_metric
from meanmax.train.schedule import Schedule

if TYPE_CHECKING:  # stored rows are read without loading PyTorch
    from meanmax.graph import Graph
    from meanmax.nn import Trainable

ATTENTION = ("gat", "cat")
SCALES = ("rows", "standard")
r"""Ways to scale features; :obj:`True` is the one that fits their kind."""


class SettingsError(ValueError):
    r"""A setting that does not exist or has the wrong type."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    r"""Everything that determines a model and its training, except the data and the seed.

    :obj:`None` stands for a default: of :func:`meanmax.build_model`, of the aggregator, or of
    :class:`~meanmax.train.Schedule`, whose arguments have the same names here.

    Args:
        backbone (str): The backbone.
        aggr (str or LearnableAggregation, optional): The aggregator, or one of
            :obj:`meanmax.nn.PYG_BASELINES`.
        start (float, optional): The start value of the aggregator's parameter, whatever its name.
        normalize (str, optional): The aggregator's :obj:`form`, under the name that rows store.
        metric (str, optional): The score of validation and test nodes, one of
            :obj:`meanmax.names.METRICS` that fits the task. (default: the accuracy of classes,
            micro-F1 of several labels, :math:`R^2` of numbers)
        class_weight (str, optional): :obj:`"balanced"` gives all classes the same weight in the
            loss, however many training nodes they have. (default: all nodes have the same weight)
        scale (bool or str, optional): How to scale features, see :class:`NodeClassifier`.
            (default: :obj:`False`)
        batch_graphs (int, optional): Graphs per batch, where training graphs are separate.
            (default: :obj:`2`, or :obj:`64` where whole graphs have the labels)
        extra (mapping): Further arguments of :func:`meanmax.build_model`; its
            :obj:`"aggr_options"` are added to the settings of the aggregator.
    """

    backbone: str = "gcn"
    aggr: Any = "none"
    # The model
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    out_heads: int | None = None
    dropout: float | None = None
    nonlinear: str | None = None
    order: str | None = None
    activation: str | None = None
    norm: str | None = None
    skip: str | None = None
    pool: bool | None = None
    conjunction: str | None = None
    structure_weight: float | None = None
    readout: str | None = None
    jump: str | None = None
    # The aggregator
    start: float | None = None
    learn: bool | None = None
    per: str | None = None
    reparam: str | None = None
    upper: float | None = None
    normalize: str | None = None
    shift: str | None = None
    sign: str | None = None
    signed: bool | None = None
    beta: float | None = None
    learn_beta: bool | None = None
    edge_dropout: float | None = None
    # The schedule
    epochs: int | None = None
    lr: float | None = None
    weight_decay: float | None = None
    patience: int | None = None
    select: str | None = None
    schedule: str | None = None
    weight_steps: int | None = None
    aggregator_lr: float | None = None
    aggregator_clip: float | None = None
    aggregator_decay: float | None = None
    aggregator_steps: int | None = None
    aggregator_optimizer: str | None = None
    aggregator_momentum: float | None = None
    aggregator_loss: str | None = None
    # The loss and the score
    metric: str | None = None
    class_weight: str | None = None
    # The data
    scale: bool | str | None = None
    batch_graphs: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        r"""Checks what neither the model nor the schedule checks."""
        if self.scale not in (None, True, False, *SCALES):
            listed = ", ".join(map(repr, SCALES))
            raise ValueError(f"'scale' must be True, False, {listed} (got {self.scale!r})")
        count: Any = self.batch_graphs
        is_count = isinstance(count, int) and not isinstance(count, bool) and count > 0
        if count is not None and not is_count:
            raise ValueError(f"'batch_graphs' must be a positive integer (got {count!r})")
        for name, allowed in (("metric", tuple(METRICS)), ("class_weight", ("balanced",))):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                listed = ", ".join(map(repr, allowed))
                raise SettingsError(f"'{name}' must be one of {listed} or None (got {value!r})")

    def check_task(self, task: Task) -> None:
        r"""Raises a :class:`SettingsError` if the metric or the weights do not fit a task."""
        if self.metric is not None:
            try:
                check_metric(self.metric, task)
            except ValueError as error:
                raise SettingsError(str(error)) from None
        if self.class_weight is not None and task != "multiclass":
            raise SettingsError(
                f"class_weight={self.class_weight!r} needs one class for each node, but this is a "
                f"{task} task: leave it out"
            )

    @classmethod
    def from_dict(cls, backbone: str, aggr: str, given: Mapping[str, Any]) -> Settings:
        r"""Checks names and types, and drops what the method does not depend on, so that a baseline
        is the same run whatever is set for the aggregators compared with it.
        """
        found = dict(given)
        if found.get("per") == "head" and backbone not in ATTENTION:
            found["per"] = "layer"  # as a model without heads does
        for name, value in found.items():
            check_name(name)
            kinds = (int, float) if KINDS[name] is float else (KINDS[name],)
            known = name == "scale" and value in SCALES
            if value is not None and type(value) not in kinds and not known:
                kind = KINDS[name].__name__
                also = f" or one of {', '.join(SCALES)}" if name == "scale" else ""
                raise SettingsError(f"'{name}' must be of type {kind}{also} (got {value!r})")
            if KINDS[name] is float and value is not None:
                found[name] = _float(name, value)  # a file may have 1 for 1.0
        used = {name: found[name] for name in found if _matters(name, backbone, aggr, found)}
        return cls(backbone=backbone, aggr=aggr, **used)

    def to_dict(self) -> dict[str, Any]:
        r"""The settings that are given, sorted by name: what rows store and run keys hash."""
        return self.given(sorted(KINDS))

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        r"""Those of the named settings that are not left to their defaults."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def make_schedule(self) -> Schedule:
        r"""The schedule. Aggregators have the learning rate of the weights unless it is given."""
        given = self.given(SCHEDULE)
        if "lr" in given:
            given.setdefault("aggregator_lr", given["lr"])
        return Schedule(**given)

    def build_model(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_nodes: int | None,
        graph: Graph,
        level: Level = "node",
    ) -> Trainable:
        r"""Builds the model of nodes or of graphs, with weights drawn from PyTorch's generator. CAT
        uses :obj:`num_nodes` of the one training graph, :obj:`None` for several graphs; PNA uses
        the degrees of :obj:`graph`, the first one.
        """
        from meanmax.nn import build_model, build_pyg_baseline
        from meanmax.nn.registry import nest_layer_options

        sizes = {"in_channels": in_channels, "hidden": 64, "out_channels": out_channels}
        if self.aggr in PYG_BASELINES:
            if level == "graph":
                raise ValueError(
                    f"aggr={self.aggr!r}, a model of PyTorch Geometric's layers, has no readout: "
                    f"leave it out for labels of graphs"
                )
            sizes |= self.given(("hidden", "layers", "heads", "dropout"))
            return build_pyg_baseline(self.backbone, self.aggr, **sizes, graph=graph)
        options: dict[str, Any] = {**sizes, **self.given(MODEL)}
        if level == "graph":
            options["task"] = level
        if self.backbone == "cat":
            options["num_nodes"] = num_nodes
        options |= self.extra
        options["aggr_options"] = self.given(AGGREGATOR) | (options.get("aggr_options") or {})
        built: Trainable = build_model(self.backbone, self.aggr, **nest_layer_options(options))
        return built


AGGREGATOR = (
    "start", "learn", "per", "reparam", "upper", "normalize", "shift", "sign", "signed", "beta",
    "learn_beta", "edge_dropout",
)  # fmt: skip
OBJECTIVE = ("metric", "class_weight")
SCHEDULE = tuple(each.name for each in fields(Schedule))
KINDS: dict[str, type] = {
    name: get_args(hint)[0]
    for name, hint in get_type_hints(Settings).items()
    if name not in ("backbone", "aggr", "extra")
}
r"""Every setting and its type."""
MODEL = tuple(
    name
    for name in KINDS
    if name not in (*AGGREGATOR, *SCHEDULE, *OBJECTIVE, "scale", "batch_graphs")
)


def check_name(name: str) -> None:
    r"""Raises a :class:`SettingsError` with suggestions unless there is such a setting."""
    if name not in KINDS:
        close = difflib.get_close_matches(name, KINDS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise SettingsError(
            f"there is no setting {name!r}: {hint}The settings are {', '.join(sorted(KINDS))}"
        )


def _float(name: str, value: int | float | str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise SettingsError(
            f"'{name}' is too large for a number (got {str(value)[:20]}...)"
        ) from None


def check_seed(seed: Any) -> int:
    r"""Raises a :class:`ValueError` unless PyTorch's generators take a seed."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = 2**64
    if isinstance(seed, bool) or not -(2**63) <= number < 2**64:
        raise ValueError(f"'seed' must be a whole number from -2**63 to 2**64 - 1 (got {seed!r})")
    return number


def _matters(name: str, backbone: str, aggr: str, found: Mapping[str, Any]) -> bool:
    if found[name] is None:
        return False
    if name in AGGREGATOR:
        if name in ("signed", "beta", "learn_beta"):
            return aggr in LEARNED and (aggr, name) != ("spread", "signed")
        if name in ("normalize", "shift", "sign"):
            if name == "normalize" and found.get("beta") is not None:
                return False  # beta takes the place of the form
            return STORED_OPTION_NAMES.get(name, name) in LEARNED.get(aggr, ())
        if name == "upper" and found.get("reparam") != "sigmoid":
            return False
        if aggr == "spread" and name in ("per", "reparam"):
            return False
        return aggr in LEARNED
    if name == "nonlinear":
        return aggr in (*LEARNED, "max")
    if name.startswith("aggregator_"):
        if aggr not in (*LEARNED, "pyg-softmax", "pyg-powermean"):
            return False
        if not found.get("learn", True) if aggr in LEARNED else name == "aggregator_decay":
            return False
        alternating = found.get("schedule") == "alternating"
        always = ("aggregator_lr", "aggregator_clip", "aggregator_decay")
        return alternating or name in always
    if aggr in PYG_BASELINES and name in MODEL:
        return name in ("layers", "hidden", "dropout") or (name == "heads" and backbone == "gat")
    if name in ("heads", "out_heads"):
        return backbone in ATTENTION
    if name in ("structure_weight", "conjunction"):
        return backbone == "cat"
    return name != "pool" or backbone == "sage"

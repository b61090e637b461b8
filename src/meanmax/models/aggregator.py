r"""The aggregators of a model's layers, made from one description."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from meanmax.aggregators import LpAggregation, PolynomialAggregation, SoftmaxAggregation
from meanmax.aggregators.base import LearnableAggregation
from meanmax.layers.neighbourhood import AGGREGATORS, Aggr

CLASSES: dict[str, tuple[type[LearnableAggregation], str]] = {
    "lp": (LpAggregation, "p"),
    "poly": (PolynomialAggregation, "alpha"),
    "softmax": (SoftmaxAggregation, "gamma"),
}


def check_aggregator(aggr: object) -> None:
    r"""A :class:`ValueError` that lists what is known, unless :obj:`aggr` is."""
    if aggr is None or isinstance(aggr, LearnableAggregation) or aggr in (*AGGREGATORS, "none"):
        return
    listed = ", ".join(repr(name) for name in ("none", *AGGREGATORS))
    raise ValueError(
        f"unknown aggregator {aggr!r}: 'aggr' must be one of {listed}, None, or an aggregator "
        f"such as meanmax.LpAggregation()"
    )


def make_aggregator(
    aggr: Aggr | str, options: Mapping[str, Any], heads: int | None, channels: int
) -> Aggr:
    r"""The aggregator of one layer.

    Args:
        aggr (str or LearnableAggregation, optional): Its name, or one that is copied.
        options (mapping): Arguments of its class. :obj:`start` is the start value under one name
            for all; :obj:`per="head"` and :obj:`"channel"` need no number.
        heads (int, optional): The layer's heads; :obj:`None` if it has none.
        channels (int): The layer's channels, all heads together.
    """
    if isinstance(aggr, LearnableAggregation):
        return copy.deepcopy(aggr)
    if aggr not in CLASSES:
        if options:
            raise ValueError(
                f"'aggr_options' has no effect with aggr={aggr!r} (got {dict(options)}): leave it "
                f"out, or choose one of {', '.join(repr(name) for name in CLASSES)}"
            )
        return "max" if aggr == "max" else None
    kind, parameter = CLASSES[aggr]
    arguments = dict(options)
    if "start" in arguments:
        arguments[parameter] = arguments.pop("start")
    per = arguments.setdefault("per", "layer" if heads is None else "head")
    if per == "head":
        arguments["heads"] = heads or 1
        arguments["per"] = per if heads is not None else "layer"
        if heads is None:
            del arguments["heads"]
    elif per == "channel":
        arguments["channels"] = channels
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ValueError(f"'aggr_options' does not fit {kind.__name__}: {error}") from None

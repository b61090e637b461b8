r"""The aggregators of a model's layers, made from one description."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from meanmax.aggr.base import LearnableAggregation
from meanmax.ops.spec import Normalize
from meanmax.nn.neighbourhood import (AGGREGATORS, CLASSES, Aggr)

PARAMETERS = {"lp": "p", "poly": "alpha", "softmax": "gamma"}


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
    aggr: Aggr | str,
    options: Mapping[str, Any],
    heads: int | None,
    channels: int,
    normalize: Normalize = "weighted",
) -> Aggr:
    r"""The aggregator of one layer.

    Args:
        aggr (str or LearnableAggregation, optional): Its name, or one that is copied.
        options (mapping): Arguments of its class. :obj:`start` is the start value under one name
            for all; :obj:`per="head"` and :obj:`"channel"` need no number.
        heads (int, optional): The layer's heads; :obj:`None` if it has none.
        channels (int): The channels that are aggregated, all heads together.
        normalize (str, optional): The form of a polynomial or softmax, unless :obj:`options` has
            one. (default: :obj:`"weighted"`)
    """
    if isinstance(aggr, LearnableAggregation):
        if options:
            raise ValueError(
                f"'aggr_options' is for aggregators given by name (got {dict(options)} beside an "
                f"object): pass them to {type(aggr).__name__} itself"
            )
        _check_fit(aggr, heads, channels)
        return copy.deepcopy(aggr)
    if aggr not in CLASSES:
        if options:
            raise ValueError(
                f"'aggr_options' has no effect with aggr={aggr!r} (got {dict(options)}): leave it "
                f"out, or choose one of {', '.join(repr(name) for name in CLASSES)}"
            )
        return "max" if aggr == "max" else None
    kind = CLASSES[aggr]
    arguments = dict(options)
    if "start" in arguments:
        arguments[PARAMETERS[str(aggr)]] = arguments.pop("start")
    if aggr != "lp":
        arguments.setdefault("normalize", normalize)
    per = arguments.setdefault("per", "layer" if heads is None else "head")
    if per == "head" and heads is None:
        arguments["per"] = "layer"
    elif per == "head":
        arguments["heads"] = heads
    elif per == "channel":
        arguments["channels"] = channels
    try:
        return kind(**arguments)
    except TypeError as error:
        raise ValueError(f"'aggr_options' does not fit {kind.__name__}: {error}") from None


def _check_fit(aggr: LearnableAggregation, heads: int | None, channels: int) -> None:
    found = {"layer": 1, "head": heads or 1, "channel": channels}[aggr.per]
    count = aggr.raw.numel()
    if aggr.per != "layer" and count not in (found, channels // (heads or 1)):
        raise ValueError(
            f"the aggregator has {count} parameters, one per {aggr.per}, but a layer has {found}: "
            f"give it by name with aggr_options={{'per': {aggr.per!r}}}, which fits every layer"
        )

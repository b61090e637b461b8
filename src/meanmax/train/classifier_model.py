r"""The model and the schedule that a classifier's parameters describe."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import fields
from numbers import Real
from typing import Any

import numpy as np

from meanmax.graph import Graph
from meanmax.nn.conv import check_positive
from meanmax.nn.models_init import (PEERS, Trainable, build_model, build_peer)
from meanmax.train.schedule import Schedule

_SIZES = ("in_channels", "out_channels")


def check_parameters(params: Mapping[str, Any]) -> None:
    r"""A :class:`ValueError` for a parameter that does not fit, as far as it is not the model that
    finds out.

    Args:
        params (mapping): All parameters of a :class:`~meanmax.NodeClassifier` by name.
    """
    check_positive(**{name: params[name] for name in ("epochs", "patience", "batch_graphs")})
    for name in ("lr", "weight_decay"):
        value = params[name]
        if isinstance(value, bool) or not isinstance(value, Real) or not _is_size(float(value)):
            raise ValueError(f"'{name}' must be a number and not negative (got {value!r})")
    allowed = set(inspect.signature(build_model).parameters) - set(params) - set(_SIZES)
    _check_options("model_options", params["model_options"], allowed)
    _check_options("schedule_options", params["schedule_options"], _further() - set(params))
    if params["aggr"] in PEERS and params["model_options"]:
        raise ValueError(
            f"'model_options' has no effect with aggr={params['aggr']!r}, a model of PyTorch "
            f"Geometric (got {params['model_options']!r}): leave it out"
        )


def schedule_of(params: Mapping[str, Any]) -> Schedule:
    r"""The schedule of training. The aggregators' parameters have the learning rate of the weights,
    unless :obj:`schedule_options` gives them another.

    Args:
        params (mapping): All parameters of a :class:`~meanmax.NodeClassifier` by name.
    """
    given = {name: params[name] for name in ("epochs", "lr", "weight_decay", "patience")}
    given |= {"aggregator_lr": params["lr"], **(params["schedule_options"] or {})}
    return Schedule(**{name: _plain(value) for name, value in given.items()})


def model_of(
    params: Mapping[str, Any],
    in_channels: int,
    out_channels: int,
    *,
    num_nodes: int | None,
    graph: Graph,
) -> Trainable:
    r"""The model, drawn from PyTorch's generator.

    Args:
        params (mapping): All parameters of a :class:`~meanmax.NodeClassifier` by name.
        in_channels (int): Channels of the features.
        out_channels (int): Classes or labels.
        num_nodes (int, optional): The nodes of the one graph that CAT is trained on;
            :obj:`None` for several graphs.
        graph (Graph): The first training graph, whose degrees PNA wants to know.
    """
    sizes = (in_channels, params["hidden"], out_channels)
    depth = (params["layers"], params["heads"], params["dropout"])
    if params["aggr"] in PEERS:
        return build_peer(params["backbone"], params["aggr"], *sizes, *depth, graph=graph)
    options: dict[str, Any] = {"num_nodes": num_nodes} if params["backbone"] == "cat" else {}
    options |= params["model_options"] or {}
    nonlinear = params["nonlinear"]
    return build_model(
        params["backbone"], params["aggr"], *sizes, *depth, nonlinear=nonlinear, **options
    )


def _check_options(name: str, options: object, allowed: set[str]) -> None:
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"'{name}' must be a dictionary or None (got {options!r})")
    unknown = set(options or {}) - allowed
    if unknown:
        raise ValueError(
            f"'{name}' has no {', '.join(sorted(map(repr, unknown)))}; it may hold "
            f"{', '.join(sorted(allowed))}"
        )


def _further() -> set[str]:
    return {field.name for field in fields(Schedule)}


def _plain(value: Any) -> Any:
    """Numpy's numbers as Python's, which a schedule asks for."""
    return value.item() if isinstance(value, np.generic) else value


def _is_size(value: float) -> bool:
    return 0 <= value < math.inf

r"""The call that the three aggregators share."""

from __future__ import annotations

import torch
from torch import Tensor

from meanmax.functional.arguments import (as_features, as_origin, as_parameter, as_weight)
from meanmax.graph import Graph
from meanmax.ops import (Form, tilted_aggregate)
from meanmax.ops.spec import (Sign, check_choice)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def tilted(
    x: Tensor,
    graph: Graph,
    theta: float | Tensor,
    form: Form,
    *,
    weight: Tensor | None,
    sign: Sign = "shift",
    mu: float | Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    r"""Checks the arguments, aggregates, and gives the result the features' shape."""
    check_choice("sign", sign, ("shift", "abs"))
    features = as_features(x, graph)
    parameter = as_parameter(theta, features, form.kind)
    edge = as_weight(weight, graph, features)
    flat = features.flat
    origin = as_origin(mu, graph, features)
    if origin is None and form.has_mu and sign == "shift":
        origin = as_origin(graph.minimum(flat), graph, features)
    if sign == "abs":
        if origin is not None:
            raise ValueError("'mu' has no meaning with sign='abs', where it is 0 (leave it out)")
        flat, origin = flat.abs(), flat.new_zeros(graph.num_graphs)
    with torch.autocast(flat.device.type, enabled=False):
        out = tilted_aggregate(
            graph.sources(flat), graph.local, parameter, edge, origin, form, backend
        )
    return features.restore(out)

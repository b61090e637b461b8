r"""Which backend computes, decided in one place.

:obj:`"numba"` serves float32 and float64 on the CPU, :obj:`"torch"` every device, and
:obj:`"reference"` is the definition the others are tested against. :obj:`"auto"` takes numba
where it can. The choice is, in this order: the :obj:`backend` argument of a call, the innermost
:class:`use_backend`, the environment variable :obj:`MEANMAX_BACKEND`, :obj:`"auto"`.
"""

from __future__ import annotations

import importlib
import os
import warnings
from contextvars import ContextVar, Token
from functools import lru_cache
from types import ModuleType

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.spec import check_choice

BACKENDS = ("auto", "numba", "torch", "reference")
_chosen: ContextVar[str | None] = ContextVar("meanmax_backend", default=None)


class use_backend:  # noqa: N801 - used like a function
    r"""Chooses the backend inside a :obj:`with` block.

    .. code-block:: python

        with meanmax.use_backend("torch"):
            out = meanmax.functional.lp(x, graph, 2.0)
    """

    def __init__(self, name: str) -> None:
        check_choice("backend", name, BACKENDS)
        self.name = name
        self._tokens: list[Token[str | None]] = []

    def __enter__(self) -> None:
        self._tokens.append(_chosen.set(self.name))

    def __exit__(self, *_: object) -> None:
        _chosen.reset(self._tokens.pop())


def select_backend(x: Tensor, graph: Graph, name: str | None = None) -> ModuleType | None:
    r"""The module with the tilted aggregations for :obj:`x`; :obj:`None` is the reference."""
    return _module(_resolve(x, graph, name), "backend")


def select_reduce(x: Tensor, graph: Graph, name: str | None = None) -> ModuleType | None:
    r"""The module with sum and maximum for :obj:`x`; :obj:`None` is the reference."""
    return _module(_resolve(x, graph, name), "reduce")


def select_attention(x: Tensor, graph: Graph, name: str | None = None) -> ModuleType | None:
    r"""The module with attention over edges for :obj:`x`; :obj:`None` is the reference."""
    return _module(_resolve(x, graph, name), "attention")


def numba_serves(x: Tensor) -> bool:
    r"""Whether what needs no graph is computed by numba for :obj:`x`."""
    name = _chosen.get() or os.environ.get("MEANMAX_BACKEND", "auto")
    fits = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return name in ("auto", "numba") and fits and _numba_error() is None


def _module(name: str, part: str) -> ModuleType | None:
    if name == "reference":
        return None
    return importlib.import_module(f"meanmax.ops.{name}.{part}")


def _resolve(x: Tensor, graph: Graph, name: str | None) -> str:
    if name is None:
        name = _chosen.get() or os.environ.get("MEANMAX_BACKEND", "auto")
    check_choice("backend", name, BACKENDS)
    if x.device != graph.device:
        raise ValueError(
            f"'x' and 'graph' must be on one device (got {x.device} and {graph.device}); "
            f"move the graph with graph.to({str(x.device)!r})"
        )
    on_cpu = x.device.type == "cpu"
    if name == "auto":
        return "numba" if on_cpu and _numba_error() is None else "torch"
    if name == "numba" and not on_cpu:
        raise ValueError(f"backend='numba' serves the CPU only (got 'x' on {x.device})")
    if name == "numba" and _numba_error() is not None:
        raise ValueError(
            f"backend='numba' needs numba, which does not import here ({_numba_error()}); "
            f"reinstall it or use backend='torch'"
        )
    return name


@lru_cache
def _numba_error() -> str | None:
    r"""Why numba does not import, found out and warned about once."""
    try:
        importlib.import_module("meanmax.ops.numba.backend")
    except ImportError as error:
        warnings.warn(
            f"numba does not import ({error}); meanmax computes with its slower torch backend",
            stacklevel=2,
        )
        return str(error)
    return None

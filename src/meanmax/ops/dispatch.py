r"""Which backend computes, decided in one place.

:obj:`"numba"` serves float32 and float64 on the CPU, :obj:`"torch"` every device, and
:obj:`"reference"` is the definition the others are tested against. :obj:`"auto"` takes numba
where it can. The choice is, in this order: the :obj:`backend` argument of a call, the innermost
:class:`use_backend`, the environment variable :obj:`MEANMAX_BACKEND`, :obj:`"auto"`. The variable
is read when the first operation runs; later changes of it have no effect.
"""

from __future__ import annotations

import importlib
import os
import warnings
from contextvars import ContextVar, Token
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from meanmax.graph import Graph
from meanmax.ops.library import active_transforms
from meanmax.ops.spec import check_choice

BACKENDS = ("auto", "numba", "torch", "reference")
_ready: dict[tuple[str, str], ModuleType | None] = {}  # by name and type of device
_chosen: ContextVar[str | None] = ContextVar("meanmax_backend", default=None)


class use_backend:  # noqa: N801 - used like a function
    r"""Chooses the backend inside a :obj:`with` block.

    .. code-block:: python

        with meanmax.use_backend("torch"):
            out = meanmax.functional.lp(x, graph, 2.0)

    A compiled function is called inside of the block; it does not contain the block.

    Example:
        >>> from meanmax import functional
        >>> graph = Graph.from_edge_index([[0, 1], [2, 2]], num_nodes=3)
        >>> with use_backend("reference"):
        ...     functional.lp(torch.tensor([[1.0], [3.0], [0.0]]), graph, 1.0)[2]
        tensor([4.])
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
    r"""The module that computes for :obj:`x`; :obj:`None` is the reference."""
    if name is None:
        name = _chosen.get() or _default()
    if not (x.is_cpu and graph.rowptr.is_cpu) and x.device != graph.device:
        raise ValueError(
            f"'x' and 'graph' must be on one device (got {x.device} and {graph.device}); "
            f"move the graph with graph.to({str(x.device)!r})"
        )
    key = name, x.device.type
    if key not in _ready:
        _ready[key] = _load(name, x)
    module = _ready[key]
    if module is not None and (transforms := active_transforms()):
        raise RuntimeError(
            f"torch.func.{transforms[-1]} does not reach through meanmax's kernels: use backward() "
            f"or torch.autograd.grad, or backend='reference', which is slow but plain PyTorch"
        )
    return module


def numba_serves(x: Tensor) -> bool:
    r"""Whether what needs no graph is computed by numba for :obj:`x`."""
    fits = x.is_cpu and x.dtype in (torch.float32, torch.float64)
    return fits and (_chosen.get() or _default()) in ("auto", "numba") and numba_error() is None


def _load(name: str, x: Tensor) -> ModuleType | None:
    check_choice("backend", name, BACKENDS)
    if name == "auto":
        name = "numba" if x.is_cpu and numba_error() is None else "torch"
    elif name == "numba" and not x.is_cpu:
        raise ValueError(f"backend='numba' serves the CPU only (got 'x' on {x.device})")
    elif name == "numba" and numba_error() is not None:
        raise ValueError(
            f"backend='numba' needs numba, which does not import here ({numba_error()}); "
            f"reinstall it or use backend='torch'"
        )
    if name == "reference":
        return None
    return importlib.import_module(f"meanmax.ops.{name}.backend")


@cache
def _default() -> str:
    r"""What :obj:`MEANMAX_BACKEND` says, read at first use."""
    return os.environ.get("MEANMAX_BACKEND", "auto")


@cache
def numba_error() -> str | None:
    r"""Why numba does not import, or :obj:`None`; found out and warned about once."""
    try:
        importlib.import_module("meanmax.ops.numba.backend")
    except ImportError as error:
        warnings.warn(
            f"numba does not import ({error}); meanmax computes with its slower torch backend",
            stacklevel=2,
        )
        return str(error)
    return None

r"""What the aggregators share: a learnable parameter, PyG's call, and the call on a graph."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from inspect import signature
from typing import Any, NamedTuple, TypedDict, Unpack, get_args

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn.aggr import Aggregation

from meanmax import functional
from meanmax.aggr.maxness import maxness
from meanmax.aggr.parameter import Domain, Per, Reparam, Start, shape_of, start_values
from meanmax.aggr.placement import watch_registrations
from meanmax.graph import Graph
from meanmax.graph.build import group_messages, group_sorted
from meanmax.graph.checks import as_index, check_count
from meanmax.graph.handles import lookup
from meanmax.names import STORED_OPTION_NAMES
from meanmax.ops.dropout import dropout
from meanmax.ops.library import TracedGraph, builder
from meanmax.ops.spec import LOWER_BOUND, PARAMETER, AggregationSpec, Sign, check_choice

_MARK = "meanmax.aggregation"  # in the metadata of a saved state


class Messages(NamedTuple):
    r"""Messages reshaped for the functional core, and the shape to restore."""

    x: Tensor  # [batch * num_messages, heads, channels], without heads where there are none
    graph: Graph  # from each message to its group, once for each element of the batch
    weight: Tensor | None  # [batch * num_messages], with heads if given so
    features: tuple[int, ...]  # the shape of one message
    out_shape: tuple[int, ...]


def as_messages(
    x: Tensor,
    index: Tensor | None,
    ptr: Tensor | None,
    dim_size: int | None,
    dim: int,
    weight: Tensor | None,
) -> Messages:
    r"""Brings :obj:`x`, :obj:`[*batch, num_messages, *features]`, to the shapes of the core.

    Leading dimensions are a batch of independent inputs, as the graphs of a batch are.
    """
    dim = dim % x.dim()
    leading, size, features = x.shape[:dim], x.size(dim), tuple(x.shape[dim + 1 :])
    graph = group_graph(index, ptr, size, dim_size, x.device)
    out_shape = (*leading, graph.num_dst, *features)
    batch = math.prod(leading)
    if batch > 1:
        graph = repeated(graph, batch)
        if weight is not None:
            weight = weight.repeat(batch, *[1] * (weight.dim() - 1))
    trailing = features
    if len(features) > 2:
        trailing = (math.prod(features[:-1]), features[-1])
    flat = x if not leading and trailing == features else x.reshape(batch * size, *trailing)
    return Messages(flat, graph, weight, features, out_shape)


def repeated(graph: Graph, times: int) -> Graph:
    r"""A batch of one graph several times."""
    if isinstance(graph, TracedGraph):
        sizes = times * graph.num_src, times * graph.num_dst, times * graph.num_edges
        handle = _repeated(graph.handle, times)
        return TracedGraph(handle, None, "", sizes, None, graph.dtype, graph.device)
    return Graph.batch([graph] * times)


def group_graph(
    index: Tensor | None,
    ptr: Tensor | None,
    size: int,
    dim_size: int | None,
    device: torch.device,
) -> Graph:
    r"""The graph from each of :obj:`size` messages to its group, by :obj:`ptr` if there is one."""
    if torch.compiler.is_compiling():
        count = dim_size if ptr is None else ptr.size(0) - 1
        if count is not None:
            handle, dtype = _group_graph(index, ptr, size, count, device), torch.get_default_dtype()
            return TracedGraph(handle, None, "", (size, count, size), None, dtype, device)
    if ptr is not None:
        return Graph(group_sorted(ptr, size))
    if index is None:
        raise ValueError("aggregation needs the groups of the messages: pass 'index' or 'ptr'")
    if index.dim() == 2 and index.size(0) == 2:
        raise ValueError(
            f"'index' must be a meanmax.Graph or the group of each message (got an edge_index of "
            f"shape {list(index.shape)}); make a graph with Graph.from_edge_index(edge_index, "
            f"num_nodes), or gather messages x[edge_index[0]] and pass index=edge_index[1]"
        )
    index = as_index(index, "index")
    check_count(0 if dim_size is None else dim_size, "dim_size", "groups")
    if index.dim() != 1 or index.numel() != size:
        raise ValueError(
            f"'index' must hold the group of each of {size} messages (got {list(index.shape)})"
        )
    structure = None if dim_size is None or dim_size < 0 else group_messages(index, dim_size)
    if structure is not None:
        return Graph(structure)
    needed = int(index.max()) + 1 if size > 0 else 0
    check_count(needed, "index", "groups")
    if dim_size is None:
        dim_size = needed
    elif dim_size < needed:
        raise ValueError(
            f"Encountered invalid 'dim_size' (got '{dim_size}' but expected >= '{needed}')"
        )
    edges = torch.stack([torch.arange(size, device=device), index.long()])
    return Graph.from_edge_index(edges, num_nodes=(size, dim_size))


_repeated = builder("repeated", "Tensor graph, SymInt times")(
    lambda graph, times: repeated(lookup(graph), times)
)
_group_graph = builder(
    "group_graph",
    "Tensor? index, Tensor? ptr, SymInt size, SymInt dim_size, Device device",
)(group_graph)


class ParameterOptions(TypedDict, total=False):
    r"""What every aggregator takes besides its start value and the options of its formula; see
    :class:`LearnableAggregation`.
    """

    learn: bool
    per: Per
    heads: int | None
    channels: int | None
    reparam: Reparam
    upper: float | None
    edge_dropout: float


class FamilyOptions(ParameterOptions, total=False):
    r"""What the paper's three take besides; see :class:`TiltedAggregation`."""

    signed: bool
    beta: float | None
    learn_beta: bool


class LearnableAggregation(Aggregation, ABC):  # type: ignore[misc]
    r"""Base of the aggregators: holds one parameter :math:`\theta`, at least :math:`l`, the value
    at which the aggregator is linear (:math:`p = 1`, :math:`\alpha = 0`, :math:`\gamma = 0`).

    It is a PyG aggregation: :obj:`SAGEConv(..., aggr=LpAggregation())` works, and so does every
    other layer. Called with a :class:`~meanmax.Graph` in place of :obj:`index`, or by
    :meth:`aggregate`, it aggregates the features of nodes over the graph: faster, and without a
    tensor of messages.

    .. note::
        :math:`\mu`, where the formula has one, is the minimum of the messages, over all groups, for
        each element of leading batch dimensions. In a PyG mini-batch its graphs share it; a
        :class:`~meanmax.Graph` keeps one per graph.

        Under :func:`torch.compile` with :obj:`fullgraph=True` give :obj:`dim_size` or :obj:`ptr`
        (PyG's layers do), as the number of groups is not known otherwise.

        Inside PyG's :class:`GCNConv` and :class:`GATConv` messages arrive already multiplied
        by their weight: the tilt then acts on :math:`a z`, which is not the paper's formula. Call
        it with a graph, or pass :obj:`edge_weight`, to have that. A softmax or polynomial needs
        :obj:`form="sum"` there, see :mod:`meanmax.aggr.placement`, and warns without it;
        :func:`meanmax.accelerate` with :obj:`aggr` gives the layer the formula and the form.

    Args:
        parameter (str): The name of the parameter.
        lowest (float): The parameter's lower bound :math:`l`.
        start (float, sequence or Tensor): The start value, or one for each head or channel.
        learn (bool, optional): Whether the parameter is learned; else it is kept as a buffer.
            (default: :obj:`True`)
        per (str, optional): One parameter for the :obj:`"layer"`, or one for each :obj:`"head"`
            or :obj:`"channel"`. (default: :obj:`"layer"`)
        heads (int, optional): The number of heads, needed by :obj:`per="head"`: the features'
            second last dimension. (default: :obj:`None`)
        channels (int, optional): The number of channels, needed by :obj:`per="channel"`: the
            features' last dimension, or heads times that. (default: :obj:`None`)
        reparam (str, optional): How the learned value is kept in its domain: :obj:`"projected"`
            with a straight-through gradient, which can hold :math:`l` exactly, :obj:`"softplus"`
            (above :math:`l`) or :obj:`"sigmoid"` (between :math:`l` and :obj:`upper`).
            (default: :obj:`"projected"`)
        upper (float, optional): The upper bound of :obj:`reparam="sigmoid"`.
            (default: :obj:`2.0`)
        edge_dropout (float, optional): In training, the share of edges or messages left out at
            random; the others are scaled up. (default: :obj:`0.0`)

    Shapes:
        - **input:** messages :math:`(*, |\mathcal{E}|, F)` or
          :math:`(|\mathcal{E}|, H, F)` with :obj:`dim=0`, and index
          :math:`(|\mathcal{E}|)`; or features :math:`(|\mathcal{V}_s|, F)` or
          :math:`(|\mathcal{V}_s|, H, F)` and a graph
        - **output:** :math:`(*, |\mathcal{V}_t|, F)` or :math:`(|\mathcal{V}_t|, H, F)`
    """

    raw: Tensor
    sign: Sign = "shift"
    has_mu = False
    r"""Whether the formula measures features from :math:`\mu`, the minimum of all of them."""

    def __init__(
        self,
        parameter: str,
        lowest: float,
        start: Start,
        *,
        learn: bool = True,
        per: Per = "layer",
        heads: int | None = None,
        channels: int | None = None,
        reparam: Reparam = "projected",
        upper: float | None = None,
        edge_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        watch_registrations()
        if (
            isinstance(edge_dropout, bool)
            or not isinstance(edge_dropout, int | float)
            or not 0 <= edge_dropout < 1
        ):
            raise ValueError(f"'edge_dropout' must be in [0, 1) (got {edge_dropout!r})")
        self.edge_dropout = float(edge_dropout)
        self.learn = bool(learn)
        self.per = per
        self.heads = heads
        self.channels = channels
        self.domain = Domain(parameter, lowest, reparam, upper)
        values = start_values(start, shape_of(per, heads, channels), self.domain.name)
        # Plain numbers: a tensor here would neither move with the module nor be saved with it.
        self._start_raw: list[float] = self.domain.raw(values).reshape(-1).tolist()
        raw = torch.empty(values.shape)
        if self.learn:
            self.raw = Parameter(raw)
        else:
            self.register_buffer("raw", raw)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Sets the parameter back to its start value."""
        with torch.no_grad():
            start = torch.tensor(self._start_raw, dtype=torch.float64, device="cpu")
            self.raw.copy_(start.view(self.raw.shape))

    @property
    def value(self) -> Tensor:
        r"""The parameter in its domain: :obj:`[]`, :obj:`[heads]` or :obj:`[channels]`."""
        return self.domain.value(self.raw)

    def forward(
        self,
        x: Tensor,
        index: Tensor | Graph | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        *,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        r"""Aggregates messages by group, as PyG's aggregations do.

        Args:
            x (Tensor): Messages, :obj:`[*, num_messages, *]`.
            index (Tensor): The group of each message, in any order. A :class:`~meanmax.Graph` in
                its place makes this the same as :meth:`aggregate`.
            ptr (Tensor, optional): The first message of each group, where messages are sorted by
                group; used in place of :obj:`index`. (default: :obj:`None`)
            dim_size (int, optional): The number of groups. (default: as many as are needed)
            dim (int, optional): The dimension of the messages. Dimensions before it are a batch,
                those after it are features. (default: :obj:`-2`)
            edge_weight (Tensor, optional): The weight :math:`a \geq 0` of each message,
                :obj:`[num_messages]` or :obj:`[num_messages, heads]`. (default: 1)
        """
        if isinstance(index, Graph):
            _check_graph_call(ptr, dim_size, dim)
            return self.aggregate(x, index, edge_weight)
        return self._aggregate_messages(x, as_messages(x, index, ptr, dim_size, dim, edge_weight))

    def aggregate(self, x: Tensor, graph: Graph, edge_weight: Tensor | None = None) -> Tensor:
        r"""Aggregates the features of nodes over a graph, without a tensor of messages.

        Args:
            x (Tensor): Features of the sources, :obj:`[num_src, channels]` or
                :obj:`[num_src, heads, channels]`.
            graph (Graph): The graph.
            edge_weight (Tensor, optional): Edge weights in the order of :obj:`graph.edge_index`,
                :obj:`[num_edges]` or :obj:`[num_edges, heads]`. (default: the graph's own, or 1)

        Returns:
            :obj:`[num_dst, channels]` or :obj:`[num_dst, heads, channels]`.
        """
        return self.evaluate(x, graph, self._dropped(graph, edge_weight))

    def evaluate(self, x: Tensor, graph: Graph, edge_weight: Tensor | None = None) -> Tensor:
        r"""The same as :meth:`aggregate`, without edge dropout also in training."""
        return self._formula(x, graph, self._spread(tuple(x.shape[1:])), edge_weight)

    def __call__(
        self,
        x: Tensor,
        index: Tensor | Graph | None = None,
        ptr: Tensor | None = None,
        *args: Any,
        **options: Any,
    ) -> Tensor:
        r"""Runs :meth:`forward`, whose arguments these are, and its hooks."""
        for name, value in (("x", x), ("index", index), ("ptr", ptr)):
            if not isinstance(value, Tensor | Graph | None) or (name == "x" and value is None):
                raise ValueError(f"'{name}' must be a tensor (got {type(value).__name__})")
        out: Tensor
        if isinstance(index, Graph):
            # PyG's own call reads the groups' number from index; hooks run in Module's.
            out = Module.__call__(self, x, index, ptr, *args, **options)
        else:
            out = super().__call__(x, index, ptr, *args, **options)
        return out

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        # Beside the version that PyTorch keeps there: no key that other modules do not know.
        metadata = getattr(destination, "_metadata", {})
        metadata.setdefault(prefix[:-1], {})[_MARK] = self._meaning()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        saved = local_metadata.get(_MARK, self._meaning())  # earlier versions wrote no mark
        if saved != self._meaning():
            error_msgs.append(
                f"'{prefix}raw' is {saved}, but this aggregator's is {self._meaning()}: build it "
                f"as it was saved"
            )
            return
        lists = missing_keys, unexpected_keys, error_msgs
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)

    def _meaning(self) -> str:
        r"""What the raw value stands for: the same number means another aggregator elsewhere."""
        upper = "" if self.domain.upper is None else f", upper={self.domain.upper!r}"
        given = f"reparam={self.domain.reparam!r}{upper}"
        return f"the {self.domain.name} of {self._kind()} with {given}"

    def _kind(self) -> str:
        r"""The formula that the parameter belongs to."""
        return type(self).__name__

    def maxness(self, x: Tensor, graph: Graph, edge_weight: Tensor | None = None) -> Tensor:
        r"""Where between mean and max it stands on its input; see :func:`meanmax.maxness`."""
        return maxness(self, x, graph, edge_weight=edge_weight)

    @abstractmethod
    def _options(self) -> dict[str, str]:
        r"""The options of the formula, in the order of the signature."""

    @abstractmethod
    def _formula(self, x: Tensor, graph: Graph, theta: Tensor, weight: Tensor | None) -> Tensor:
        r"""The aggregate over a graph, with a parameter that broadcasts against one message."""

    def _family(self) -> dict[str, object]:
        r"""Further options that the representation shows."""
        return {}

    def _aggregate_messages(self, x: Tensor, given: Messages) -> Tensor:
        theta = self._spread(given.features)
        if math.prod(given.out_shape) == 0:
            # x is empty: its sum adds nothing, and keeps the result in the autograd graph.
            return x.new_zeros(given.out_shape) + x.sum()
        if len(given.features) > 2 and theta.dim() > 0:
            theta = theta.expand(given.features).reshape(given.x.shape[1:])
        weight = self._dropped(given.graph, given.weight)
        out = self._formula(given.x, given.graph, theta, weight)
        return out if out.shape == given.out_shape else out.view(given.out_shape)

    def _dropped(self, graph: Graph, weight: Tensor | None) -> Tensor | None:
        r"""Weights of which some are 0 in training, all heads of an edge together."""
        if not self.training or self.edge_dropout == 0:
            return weight
        if weight is None:
            weight = graph.edge_weight
        kept = dropout(torch.ones(graph.num_edges, device=graph.device), self.edge_dropout)
        if weight is None:
            return kept
        return weight * kept.to(weight.dtype).view(-1, *[1] * (weight.dim() - 1))

    def _spread(self, features: tuple[int, ...]) -> Tensor:
        r"""The parameter in a shape that broadcasts against one message."""
        # A projection that changes nothing is skipped: it costs five small operations.
        value = self.raw if self.domain.is_itself(self.raw) else self.value
        if self.per == "layer":
            return value
        if self.per == "head":
            if len(features) >= 2 and features[-2] == value.numel():
                return value.unsqueeze(-1)  # [heads, 1]
            raise ValueError(
                f"per='head' with heads={value.numel()} needs features of shape "
                f"[..., {value.numel()}, channels] (got {list(features)})"
            )
        if value.numel() == (features[-1] if features else 1):
            return value
        if value.numel() == math.prod(features):
            return value.view(features)
        raise ValueError(
            f"per='channel' with channels={value.numel()} needs features of shape "
            f"[..., {value.numel()}] or as many over all dimensions (got {list(features)})"
        )

    def __repr__(self) -> str:
        facts: dict[str, object] = {"learn": self.learn, "per": self.per}
        facts["reparam"] = self.domain.reparam
        if self.domain.upper is not None:
            facts["upper"] = self.domain.upper
        facts |= self._options() | self._family()
        if self.edge_dropout:
            facts["edge_dropout"] = self.edge_dropout
        listed = ", ".join(f"{name}={fact!r}" for name, fact in facts.items())
        return f"{type(self).__name__}({self.domain.name}={_shown(self.value)}, {listed})"


class TiltedAggregation(LearnableAggregation):
    r"""Base of the paper's three aggregators, and of a family that spans more than mean to max.

    With :obj:`signed=True` the parameter is any number :math:`\theta`: :math:`p = 1 + |\theta|`,
    :math:`\alpha = |\theta|` or :math:`\gamma = \theta`. A negative one aggregates :math:`-z` and
    negates the result: from the minimum over the mean to the maximum. At 0 its derivative is the
    mean of both sides.

    With :obj:`beta` the normalised aggregate is multiplied by :math:`A_v^\beta`: a mean at
    :math:`\beta = 0`, a sum at :math:`\beta = 1`. Without weights :math:`A_v` is the number of
    neighbours. Where weights sum to 1 it has no effect.

    Args:
        spec (AggregationSpec): Which of them it is.
        start (float, sequence or Tensor): The start value, or one for each head or channel; of
            :math:`\theta` with :obj:`signed=True`.
        sign (str, optional): :obj:`"shift"` measures features from :math:`\mu`, :obj:`"abs"` takes
            :math:`|z|` and adds nothing back. (default: :obj:`"shift"`)
        signed (bool, optional): Whether the parameter may lead to the minimum.
            (default: :obj:`False`)
        beta (float, optional): :math:`\beta`; for polynomial and softmax it takes the place of
            :obj:`form`. (default: :obj:`None`)
        learn_beta (bool, optional): Whether :math:`\beta` is learned from there on.
            (default: :obj:`False`)
        **options: Further arguments of :class:`LearnableAggregation`.
    """

    beta: Tensor | None

    def __init__(
        self,
        spec: AggregationSpec,
        start: Start,
        sign: Sign = "shift",
        *,
        signed: bool = False,
        beta: float | None = None,
        learn_beta: bool = False,
        **options: Unpack[ParameterOptions],
    ) -> None:
        check_choice("sign", sign, get_args(Sign))
        _check_options(type(self), options)
        if signed or beta is not None:
            shape = spec.kind, spec.form, spec.shift, sign
            functional.check_extension(*shape, signed=signed, scaled=beta is not None)
        if signed and options.get("reparam", "projected") != "projected":
            raise ValueError(
                f"reparam={options['reparam']!r} keeps the parameter on one side: leave it out "
                f"with signed=True"
            )
        if learn_beta and beta is None:
            raise ValueError(
                "learn_beta=True needs a start value: pass beta=0.0 (mean) or 1.0 (sum)"
            )
        lowest = -math.inf if signed else LOWER_BOUND[spec.kind]
        name = "theta" if signed else PARAMETER[spec.kind]
        super().__init__(name, lowest, start, **options)
        self.spec = spec
        self.sign = sign
        self.signed = bool(signed)
        self.learn_beta = bool(learn_beta)
        self.has_mu = spec.has_mu and sign == "shift"
        self._start_beta = None if beta is None else _finite(beta, "beta")
        if learn_beta:
            self.beta = Parameter(torch.empty(()))
        else:
            self.register_buffer("beta", None if beta is None else torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        r"""Sets the parameters back to their start values."""
        super().reset_parameters()
        if (beta := getattr(self, "beta", None)) is not None:  # not yet there in the base
            with torch.no_grad():
                beta.fill_(self._start_beta)

    @property
    def strength(self) -> Tensor:
        r"""The parameter of the formula: the value itself, or with :obj:`signed=True`
        :math:`1 + |\theta|`, :math:`|\theta|` or :math:`\theta`.
        """
        if not self.signed or self.spec.kind == "softmax":
            return self.value
        return LOWER_BOUND[self.spec.kind] + self.value.abs()

    def _formula(self, x: Tensor, graph: Graph, theta: Tensor, weight: Tensor | None) -> Tensor:
        spec = self.spec
        options = spec.kind, spec.form, spec.shift, self.sign, self.signed, self.beta
        return functional.aggregate(x, graph, theta, weight, *options)

    def _kind(self) -> str:
        return self.spec.kind

    def _family(self) -> dict[str, object]:
        r"""The options of the family that are in use."""
        facts: dict[str, object] = {"signed": True} if self.signed else {}
        if self.beta is not None:
            facts |= {"beta": float(f"{float(self.beta.detach()):.4g}")}
            facts |= {"learn_beta": True} if self.learn_beta else {}
        return facts


def _finite(value: object, name: str) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good:
        raise ValueError(f"'{name}' must be a finite number (got {value!r})")
    return float(value)  # type: ignore[arg-type]


def _check_options(kind: type, options: Iterable[str]) -> None:
    r"""Raises a :class:`TypeError` that names the aggregator for an option it does not have."""
    known = [*ParameterOptions.__annotations__, *FamilyOptions.__annotations__]
    known = list(dict.fromkeys(known))
    for name in options:
        if name not in known:
            own = [each for each in signature(kind).parameters if each != "options"]
            hint = f"the options are {', '.join([*own, *known])}"
            if STORED_OPTION_NAMES.get(name) in own:
                hint = f"the option is called {STORED_OPTION_NAMES[name]!r}"
            raise TypeError(f"{kind.__name__} has no option {name!r}: {hint}")


def _check_graph_call(ptr: Tensor | None, dim_size: int | None, dim: int) -> None:
    if ptr is not None or dim_size is not None or dim not in (-2, 0):
        raise ValueError(
            f"a Graph defines the groups and their number, and nodes are the first dimension: "
            f"leave out 'ptr', 'dim_size' and 'dim' (got dim_size={dim_size!r}, dim={dim!r})"
        )


def _shown(value: Tensor) -> str:
    low, high = (float(f"{float(end):.4g}") for end in value.detach().aminmax())
    shown = repr(low) if low == high else f"{low!r}…{high!r}"
    return shown if value.dim() == 0 else f"{shown} (n={value.numel()})"

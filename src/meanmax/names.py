r"""The names that models go by, in one place that imports nothing.

Commands list them in their help, and stored rows are read by them, without loading PyTorch. A test
compares them with :mod:`meanmax.nn`, which holds what they name.
"""

from typing import Final

BACKBONES: Final = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin")
AGGREGATORS: Final = ("lp", "poly", "softmax", "max")
PYG_BASELINES: Final = ("pyg-softmax", "pyg-powermean", "pna")

AGGREGATOR_ALIASES: Final = {"linear": "none", "polynomial": "poly"}


def aggregator_name(aggr: object) -> str:
    r"""The name that an aggregator is stored under.

    Args:
        aggr (str, optional): A name or an alias; :obj:`None` and :obj:`"linear"` are the layer's
            own aggregation, which is stored as :obj:`"none"`.

    Example:
        >>> aggregator_name("linear"), aggregator_name(None), aggregator_name("polynomial")
        ('none', 'none', 'poly')
    """
    name = "none" if aggr is None else aggr
    if isinstance(name, str):
        name = AGGREGATOR_ALIASES.get(name, name)
        if name == "none" or name in AGGREGATORS:
            return name
    listed = ", ".join(repr(known) for known in ("linear", *AGGREGATORS))
    raise ValueError(
        f"unknown aggregator {aggr!r}: 'aggr' must be one of {listed}, None (the same as "
        f"'linear'), or an aggregator such as meanmax.LpAggregation()"
    )

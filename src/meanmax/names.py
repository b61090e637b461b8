r"""Names of backbones, aggregators and splits, in one place that imports nothing.

Commands list them in their help, and stored rows are read by them, without loading PyTorch. A test
compares those of models with the registries of :mod:`meanmax.nn`.
"""

from typing import Final

BACKBONES: Final = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin")
LEARNED: Final = {"lp": ("shift", "sign"), "poly": ("form", "sign"), "softmax": ("form",)}
r"""The learnable aggregators, and the options of each one's formula."""

AGGREGATORS: Final = (*LEARNED, "max")
PYG_BASELINES: Final = ("pyg-softmax", "pyg-powermean", "pna")
SPLIT_SCHEMES: Final = {
    "citation": "20 nodes of each class train, 500 validate, 1000 test",
    "amazon": "20 nodes of each class train, 30 of each validate, the rest tests",
    "balanced": "of each class 20 nodes train and 30 validate, at most 30 % each; the rest tests",
    "random": "60 % of the labelled nodes train, 20 % validate, 20 % test",
    "inductive": "whole graphs: as released, else 80 % train, 10 % validate, 10 % test",
    "public": "the split that Planetoid published",
    "given": "the split that came with the data",
    "file:PATH": "a split file: npz with train, val, test (a row for each seed), or csv id,split",
}
r"""The schemes of :func:`meanmax.data.make_split`, and what each does."""

IMPUTATIONS: Final = ("mean", "median", "zero")
r"""What missing features may be filled with."""

STORED_OPTION_NAMES: Final = {"normalize": "form"}
r"""Options of aggregators whose names in stored rows, settings files and saved models differ."""

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
        f"'linear'), or an aggregator such as meanmax.LpAggregation(); 'linear' is the layer's own "
        f"aggregation: the mean in SAGEConv, the sum in GINConv"
    )

r"""Names of backbones, aggregators, references, splits and metrics, in one place without imports.

Commands list them in their help, and stored rows are read by them, without loading PyTorch. A test
compares those of models with the registries of :mod:`meanmax.nn`.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

BACKBONES: Final = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin", "gen", "mlp")
WITHOUT_AGGREGATOR: Final = ("mlp",)
r"""The backbones that ignore the edges and take no aggregator."""

LEARNED: Final = {
    "lp": ("shift", "sign"),
    "poly": ("form", "sign"),
    "softmax": ("form",),
    "spread": ("form",),
}
r"""The learnable aggregators, and the options of each one's formula."""

AGGREGATORS: Final = (*LEARNED, "max")
PYG_BASELINES: Final = ("pyg-softmax", "pyg-powermean", "pna")
REFERENCES: Final = {
    "majority": "majority class",
    "logistic": "logistic regression",
    "label-propagation": "label propagation",
}
r"""The references of :mod:`meanmax.study.references`, and their labels in tables."""

GRAPH_REFERENCES: Final = ("majority", "logistic")
r"""Those for labels of whole graphs, between which there are no edges."""

REGRESSION_REFERENCES: Final = {
    **REFERENCES,
    "majority": "mean of targets",
    "logistic": "ridge regression",
}
r"""Their labels where targets are numbers."""

SPLIT_SCHEMES: Final = {
    "citation": "20 nodes of each class train, 500 validate, 1000 test",
    "amazon": "20 nodes of each class train, 30 of each validate, the rest tests",
    "balanced": "of each class 20 nodes train and 30 validate, at most 30 % each; the rest tests",
    "random": "60 % of the labelled nodes train, 20 % validate, 20 % test",
    "folds": "ten-fold cross-validation: a tenth tests, the next validates, the rest trains",
    "inductive": "whole graphs: as released, else 80 % train, 10 % validate, 10 % test",
    "public": "the split that Planetoid published",
    "given": "the split that came with the data",
    "file:PATH": "a split file: npz with train, val, test (a row for each seed), or csv id,split",
}
r"""The schemes of :func:`meanmax.data.make_split`, and what each does."""

Level: TypeAlias = Literal["node", "graph"]
r"""What has labels: the nodes of a graph, or whole graphs of a collection."""

Task: TypeAlias = Literal["multiclass", "multilabel", "regression"]
r"""What the target of a node or graph is: one class, several labels of 0 and 1, or a number."""


TASKS: Final = ("classification", "regression")
r"""What the labels of one's own graph may be declared to be."""


class Metric(NamedTuple):
    r"""What is known of a metric without computing it."""

    label: str  # in tables
    tasks: tuple[Task, ...]  # that it fits
    higher_is_better: bool = True
    percent: bool = True  # whether it is shown and stored in percent, else as it is

    def text(self, score: float, places: int = 2) -> str:
        r"""A stored score in words: with its unit, or with the label of what has none.

        Example:
            >>> METRICS["accuracy"].text(81.25), METRICS["mse"].text(0.81254)
            ('81.25 %', 'MSE 0.8125')
        """
        return f"{score:.{places}f} %" if self.percent else f"{self.label} {score:.4g}"


METRICS: Final = {
    "accuracy": Metric("accuracy", ("multiclass",)),
    "balanced_accuracy": Metric("balanced accuracy", ("multiclass",)),
    "micro_f1": Metric("micro-F1", ("multilabel",)),
    "macro_f1": Metric("macro-F1", ("multiclass", "multilabel")),
    "roc_auc": Metric("ROC AUC", ("multiclass", "multilabel")),
    "average_precision": Metric("average precision", ("multiclass", "multilabel")),
    "r2": Metric("R²", ("regression",), percent=False),
    "mse": Metric("MSE", ("regression",), higher_is_better=False, percent=False),
    "mae": Metric("MAE", ("regression",), higher_is_better=False, percent=False),
}
r"""The metrics of :mod:`meanmax.train.metrics`."""

USUAL_METRIC: Final[dict[Task, str]] = {
    "multiclass": "accuracy",
    "multilabel": "micro_f1",
    "regression": "r2",
}
r"""The metric of scores where the setting :obj:`metric` is not given."""

IMPUTATIONS: Final = ("mean", "median", "zero")
r"""What missing features may be filled with."""

STORED_OPTION_NAMES: Final = {"normalize": "form"}
r"""Options of aggregators whose names in stored rows, settings files and saved models differ."""

AGGREGATOR_ALIASES: Final = {"linear": "none", "polynomial": "poly"}


def default_aggregator(backbone: str) -> str:
    r"""The aggregator of a single model for which none is chosen.

    Example:
        >>> default_aggregator("gcn"), default_aggregator("mlp")
        ('softmax', 'none')
    """
    return "none" if backbone in WITHOUT_AGGREGATOR else "softmax"


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

r"""What the paper prints in its Tables 1 to 4, under the names that meanmax uses."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files as resources
from typing import Any, NamedTuple

from meanmax.data.fetch.catalog import Counts

TABLES = (2, 3, 4)
r"""The tables of results: classification, clustering, inductive classification."""


class Published(NamedTuple):
    r"""A cell of Table 2, 3 or 4, in percent."""

    mean: float
    std: float


class Heading(NamedTuple):
    r"""What a table is about, in the paper's words."""

    task: str
    metric: str


def paper_value(table: int, backbone: str, aggr: str, data: str) -> Published | None:
    r"""The cell of a table, or :obj:`None` if the paper has none for these names.

    Example:
        >>> paper_value(2, "gcn", "softmax", "cora")
        Published(mean=83.1, std=1.28)
        >>> paper_value(4, "gat", "none", "ppi")
        Published(mean=97.3, std=0.3)
        >>> paper_value(4, "gat", "none", "ppi-go") is None
        True

    Args:
        table (int): 2 for transductive classification, 3 for clustering, 4 for inductive
            classification.
        backbone (str): :obj:`"gcn"`, :obj:`"masked_gcn"`, :obj:`"gat"` or :obj:`"cat"`.
        aggr (str): :obj:`"none"` for the baseline, :obj:`"lp"`, :obj:`"poly"` or
            :obj:`"softmax"`.
        data (str): :obj:`"cora"`, :obj:`"citeseer"`, :obj:`"pubmed"`, :obj:`"photo"` or
            :obj:`"computers"`; in Table 4 :obj:`"ppi"`. The set :obj:`"ppi-go"` is another than
            the paper's and has no value.
    """
    cell = _table(table)["results"].get(backbone, {}).get(aggr, {}).get(data)
    return None if cell is None else Published(*cell)


def paper_heading(table: int) -> Heading:
    r"""The task and the metric of a table.

    Args:
        table (int): 2, 3 or 4.
    """
    content = _table(table)
    return Heading(content["task"], content["metric"])


def paper_counts(data: str) -> Counts | None:
    r"""The row of Table 1 on a data set, or :obj:`None` if it is not in there.

    Example:
        >>> paper_counts("cora")
        Counts(nodes=2708, edges=5429, features=1433, classes=7)

    Args:
        data (str): As in :func:`paper_value`, :obj:`"ppi"` included.
    """
    row = _tables()["1"].get(data)
    return None if row is None else Counts(**row)


def _table(number: int) -> dict[str, Any]:
    if number not in TABLES:
        raise ValueError(
            f"'table' must be one of {', '.join(map(str, TABLES))} (got {number!r}); for Table 1, "
            f"the counts of the data sets, call paper_counts"
        )
    table: dict[str, Any] = _tables()[str(number)]
    return table


@cache
def _tables() -> dict[str, Any]:
    file = resources("meanmax.study") / "paper" / "tables.json"
    tables: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return tables

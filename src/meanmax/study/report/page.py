r"""The page: one file with everything in it, which opens from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from meanmax.data import Dataset
from meanmax.data.files import write_text
from meanmax.study.report.content import content
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.scatter import KnownNodes
from meanmax.study.runs.machine import package_version
from meanmax.study.stats.paired import FEW
from meanmax.study.store.store import reported

DEFAULT_NAME = "report.html"
STYLES = ("style.css", "figures.css")
SCRIPTS = (
    "page.js",
    "tables.js",
    "chart.js",
    "scatter.js",
    "aggregate.js",
    "playground.js",
)
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_report(
    store: Path,
    out: Path | None = None,
    *,
    title: str | None = None,
    settings_name: str | None = None,
    datasets: Iterable[Dataset] = (),
    data_dir: Path | None = None,
    tsne: bool = False,
) -> Path:
    r"""Writes the page of a store or of exported rows; the file.

    Args:
        store (Path): The folder of the runs, or a file they were exported to.
        out (Path, optional): The page. (default: :obj:`report.html` in the store's folder, or
            beside the exported file)
        title (str, optional): Its heading. (default: the data sets)
        settings_name (str, optional): Only runs of this settings file. (default: :obj:`None`)
        datasets (iterable, optional): The data, if they are loaded: they give points of
            embeddings their classes and names. Named data sets on disk are found without.
        data_dir (Path, optional): Where to look for named data sets first.
        tsne (bool, optional): Whether embeddings are placed in the plane now where that was not
            done before, which takes up to a minute for each. (default: :obj:`False`)
    """
    store = Path(store)
    evidence = Evidence.of(store)
    shown = content(
        evidence,
        title=title,
        settings_name=settings_name,
        known=KnownNodes(datasets, data_dir),
        tsne=tsne,
    )
    folder = store if store.is_dir() else store.parent
    path = folder / DEFAULT_NAME if out is None else Path(out)
    with reported(path):
        write_text(path, render(shown))
    return path


def render(shown: dict[str, Any]) -> str:
    r"""The HTML of what :func:`~meanmax.study.report.content.content` gives.

    All text is escaped, and a content security policy lets no other script run than the page's
    own, which it names by their hash.

    Args:
        shown (dict): The content.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("meanmax.study.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["few"] = FEW
    environment.filters |= {"number": number, "signed": signed, "p_value": p_value}
    style = "\n".join(map(_part, STYLES))
    script = "\n".join(['"use strict";', *map(_part, SCRIPTS)])
    return environment.get_template("page.html").render(
        **shown,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        embedded=embedded({"sections": _drawn(shown["sections"], shown["depths"])}),
        version=_version(),
    )


def embedded(value: Any) -> Markup:
    r"""JSON that can stand inside a script element, whatever text is in it.

    Example:
        >>> print(embedded({"id": "</script>"}))
        {"id":"\u003c/script\u003e"}

    Args:
        value: What JSON can hold, without NaN.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for mark, escaped in _UNSAFE.items():
        text = text.replace(mark, escaped)
    return Markup(text)


def number(value: float | None, places: int = 2) -> str:
    r"""A number with so many places, a dash for none."""
    return "–" if value is None else f"{value:.{places}f}".replace("-", "−")


def signed(value: float | None, places: int = 2) -> str:
    r"""A number with its sign, a dash for none."""
    return "–" if value is None else f"{value:+.{places}f}".replace("-", "−")


def p_value(value: float | None) -> str:
    r"""A p-value with two digits, a dash for none."""
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _drawn(sections: list[dict[str, Any]], depths: dict[str, Any] | None) -> list[dict[str, Any]]:
    r"""What the scripts draw; all else is in the HTML."""
    drawn = [
        {"id": section["id"], "charts": section["charts"], "scatter": section["scatter"]}
        for section in sections
    ]
    return drawn if depths is None else [*drawn, {"id": depths["id"], "charts": depths["charts"]}]


def _version() -> str:
    found = package_version("meanmax")
    return f" {found}" if found[:1].isdigit() else ""  # a checkout need not be installed


def _part(name: str) -> str:
    return files("meanmax.study.report").joinpath("templates", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

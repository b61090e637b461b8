r"""The page: one file with everything in it, which opens from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from meanmax.data.files import write_text
from meanmax.names import SPLIT_SCHEMES
from meanmax.study.paper.result_tables import PPI_GO, paper_counts
from meanmax.study.report.charts import charts, depths, scatters
from meanmax.study.report.embeddings import LabelSource, NodeLabels, size_text
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.groups import PLACE, Comparisons, RunGroup, distinguish, groups, setting
from meanmax.study.report.overview import all_differences, forest, matrices, sentences
from meanmax.study.runs.machine import package_version
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import AUTO
from meanmax.study.stats.cells import score_form
from meanmax.study.stats.comparison import BASELINE, CAVEAT, findings
from meanmax.study.stats.paired import FEW
from meanmax.study.store.store import reported

if TYPE_CHECKING:
    from meanmax.data import Dataset

DEFAULT_NAME = "report.html"
STYLES = ("style.css", "figures.css")
SCRIPTS = ("page.js", "tables.js", "chart.js", "scatter.js", "aggregate.js", "playground.js")
OPEN = 6  # a page of up to this many comparisons shows all of them opened
_ESCAPES = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"})


def write_report(
    store: Path,
    out: Path | None = None,
    *,
    datasets: Iterable[Dataset] = (),
    data_dir: Path | None = None,
    **options: Any,
) -> Path:
    r"""Writes the page of a store's folder or of exported rows, and returns its file; without
    :obj:`out` it is :obj:`report.html` in that folder or next to the exported file.

    Loaded data sets give the points of embeddings their classes and names. Named data sets are also
    found on disk, first in :obj:`data_dir`. Further options are those of :func:`content`.
    """
    labels = LabelSource(datasets, data_dir)
    shown = content(Evidence.of(store, tolerant=True), labels=labels, **options)
    path = out or (store if store.is_dir() else store.parent) / DEFAULT_NAME
    with reported(path):
        write_text(path, render(shown))
    return path


def content(
    evidence: Evidence,
    *,
    title: str | None = None,
    settings_name: str | None = None,
    labels: LabelSource | None = None,
    tsne: bool = False,
    comparisons: Comparisons | None = None,
) -> dict[str, Any]:
    r"""Everything that the page shows, as plain values, of the runs of one settings file or of all.

    Without a title, the heading names the data sets. t-SNE of embeddings that is not cached is only
    computed with :obj:`tsne`, because it takes up to a minute for each. Comparisons that were
    computed before are given by the keys of their rows.
    """
    labels = labels or LabelSource()
    listed = groups(evidence.rows, settings_name, comparisons)
    headings = distinguish(listed, [group.heading for group in listed])
    rows = list({row.key: row for group in listed for row in group.rows}.values())
    scattered = scatters(listed, evidence, labels, compute=tsne)
    statuses = [row.status for row in rows]
    # Times to the minute, of which the first and the last are shown.
    times = sorted(row.finished[:16].replace("T", " ") for row in rows if row.finished)
    return {
        "title": title or _title(rows),
        "counts": {
            "runs": len(rows),
            "failed": len(rows) - statuses.count("ok"),
            "diverged": statuses.count("diverged"),
        },
        "finished": " to ".join(dict.fromkeys(times[:1] + times[-1:])),
        "sentences": sentences(listed, headings),
        "caveat": "" if all(group.comparison.one_split for group in listed) else CAVEAT,
        "data": _data(rows, labels),
        "matrices": matrices(listed),
        "forests": all_differences(listed),
        "depths": depths(rows),
        "sections": [
            {
                "id": f"comparison-{place + 1}",
                "heading": heading,
                "open": len(listed) <= OPEN or place == 0,
                "verdict": findings(group.comparison) if len(listed) > 1 else "",
                **_section(group, evidence),
                "scatter": scatter,
            }
            for place, (group, heading, scatter) in enumerate(
                zip(listed, headings, scattered, strict=True)
            )
        ],
        "machine": _machine(rows),
        "problems": sorted(set(evidence.problems.values())),
        "settings": settings_name,
    }


def _section(group: RunGroup, evidence: Evidence) -> dict[str, Any]:
    options = evidence.options.get(frozenset(row.key for row in group.rows), ())
    own, command = group.lines, group.command(options)
    return {
        "overrides": [
            {"name": name, "value": setting(value)} for name, value in group.overrides.items()
        ],
        "split": group.split,
        "metric": group.comparison.metric,
        "scores": group.comparison.heading,
        "unit": group.comparison.scale.points,
        "percent": group.comparison.percent,
        "lines": own,
        "references": [json_safe(line) for line in group.comparison.references],
        "paper": any(line["paper"] for line in own),
        "all": any(line["all"] for line in own),
        "notes": [*group.comparison.notes, *_notes(group)],
        "failures": group.failures(),
        "forest": forest(own),
        "charts": charts(group, evidence),
        "embedded": any(evidence.has_artefact(row.key) for row in group.rows),
        "aggrs": group.aggrs,
        "settings": group.settings_table(),
        "settings_names": [name for name, _ in group.settings_sets],
        "searched": group.settings_name == AUTO,
        "command": command,
        "needs_place": f"{PLACE}/" in command,
    }


def _notes(group: RunGroup) -> list[str]:
    found = []
    if BASELINE not in group.aggrs:
        found.append(
            "The baseline, the backbone's own aggregation ('none'), was not run: there is nothing "
            "to compare with."
        )
    if short := [f"{x['aggr']} {x['missing']}" for x in group.lines if x["missing"] > 0]:
        found.append(f"Not on all splits yet; missing runs: {', '.join(short)}.")
    if single := ", ".join(line["aggr"] for line in group.lines if line["n"] == 1):
        found.append(f"A single run says nothing about the spread over splits: {single}.")
    return [*found, PPI_GO] if group.data == "ppi-go" else found


def _data(rows: Sequence[Row], labels: LabelSource) -> list[dict[str, Any]]:
    r"""The data sets; those of the same name are distinguished by their hash."""
    found = []
    for data, data_hash in dict.fromkeys((row.data, row.data_hash) for row in rows):
        own = [row for row in rows if (row.data, row.data_hash) == (data, data_hash)]
        nodes, counts = labels.known.get(data_hash), paper_counts(data)
        size = f"{size_text(counts)} (the paper's Table 1)" if counts else ""
        splits = Counter(split for split, _ in dict.fromkeys((r.split, r.split_seed) for r in own))
        found.append(
            {
                "name": data,
                "hash": data_hash,
                "size": nodes.size if isinstance(nodes, NodeLabels) else size,
                "examples": nodes.examples if isinstance(nodes, NodeLabels) else (),
                "runs": len(own),
                "splits": [
                    {"scheme": split, "count": count, "means": SPLIT_SCHEMES.get(split, "")}
                    for split, count in splits.items()
                ],
            }
        )
    return found


def _title(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.data for row in rows))
    if not names:
        return "No runs yet"
    return f"From mean to max on {', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]}"


def _machine(rows: Sequence[Row]) -> list[dict[str, Any]]:
    r"""Versions, processor, threads and commit; each value with the number of its runs."""
    facts = {
        "processor": [row.cpu or "unknown" for row in rows],
        "threads of a run": [str(row.threads) for row in rows],
        "machine": ["idle" if row.alone else "shared with other work" for row in rows],
        "commit": [row.commit or "unknown" for row in rows],
    }
    for name in sorted({name for row in rows for name in row.versions}):
        facts[name] = [row.versions.get(name, "unknown") for row in rows]
    return [
        {"fact": fact, "values": [{"text": t, "runs": n} for t, n in Counter(own).most_common()]}
        for fact, own in facts.items()
    ]


def render(shown: dict[str, Any]) -> str:
    r"""The HTML of what :func:`content` gives. All text is escaped, and a content security policy
    allows the page's own script only, by its hash.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("meanmax.study.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["few"] = FEW
    environment.filters |= {
        "number": number,
        "score": score,
        "signed": signed,
        "p_value": p_value,
    }
    folder = files("meanmax.study.report") / "templates"
    texts = {name: (folder / name).read_text("utf-8") for name in STYLES + SCRIPTS}
    style = "\n".join(texts[name] for name in STYLES)
    script = "\n".join(['"use strict";', *(texts[name] for name in SCRIPTS)])
    version = package_version("meanmax")
    # Only what the scripts draw; all else is in the HTML.
    keys = ("id", "charts", "scatter")
    parts = [part for part in (*shown["sections"], shown["depths"]) if part]
    drawn = [{key: part[key] for key in keys if key in part} for part in parts]
    return environment.get_template("page.html").render(
        **shown,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        embedded=embedded({"sections": drawn}),
        # A checkout need not be installed.
        version=f" {version}" if version[:1].isdigit() else "",
    )


def embedded(value: Any) -> Markup:
    r"""JSON that is safe inside a script element, whatever text is in it.

    Example:
        >>> print(embedded({"id": "</script>"}))
        {"id":"\u003c/script\u003e"}
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


def number(value: float | None, places: int = 2, sign: str = "") -> str:
    r"""A number with a fixed number of decimals; a dash for none."""
    return "–" if value is None else f"{value:{sign}.{places}f}".replace("-", "−")


signed = partial(number, sign="+")


def score(value: float | None, percent: bool, *beside: float | None, sign: str = "") -> str:
    r"""A score or a difference of scores, formatted like those beside it; a dash for none."""
    form = score_form(percent, value, *beside)
    return "–" if value is None else f"{value:{sign}{form}}".replace("-", "−")


def p_value(value: float | None) -> str:
    r"""A p-value with two digits; a dash for none."""
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"

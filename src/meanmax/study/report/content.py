r"""What is on the page, as plain values that come from rows and artefacts only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meanmax.data.splits import SCHEMES
from meanmax.study.paper.tables import PPI_GO, paper_counts
from meanmax.study.report.charts import charts, depths, forest
from meanmax.study.report.evidence import Arrays, Evidence
from meanmax.study.report.lines import Group, compared, groups, lines
from meanmax.study.report.overview import (
    Made,
    all_differences,
    caveat,
    headings,
    matrices,
    sentences,
    told,
)
from meanmax.study.report.provenance import (
    command,
    failures,
    machine,
    needs_place,
    setting,
    settings_table,
    span,
)
from meanmax.study.report.scatter import KnownNodes, scatter, with_points
from meanmax.study.runs.row import Row
from meanmax.study.stats.comparison import BASELINE

OPEN = 6
r"""Up to so many comparisons are open when the page is."""


def content(
    evidence: Evidence,
    *,
    title: str | None = None,
    settings_name: str | None = None,
    known: KnownNodes | None = None,
    tsne: bool = False,
) -> dict[str, Any]:
    r"""Everything that the page shows.

    Args:
        evidence (Evidence): The runs.
        title (str, optional): The heading. (default: the data sets)
        settings_name (str, optional): Only runs of this settings file. (default: :obj:`None`)
        known (KnownNodes, optional): Classes and names of nodes. (default: of named data sets)
        tsne (bool, optional): Whether embeddings are placed in the plane now where that was not
            done before. (default: :obj:`False`)
    """
    known = known or KnownNodes()
    arrays = Arrays(evidence)
    made: list[Made] = []
    for group in groups(evidence.rows, settings_name):
        comparison = compared(group)
        made.append((group, comparison, lines(group, comparison)))
    spoken = sentences(made)
    rows = list({row.key: row for group, _, _ in made for row in group.rows}.values())
    shown = [group for group, _, _ in made]
    names = headings(shown)
    sharing = with_points(shown, arrays, compute=tsne)
    sections = [
        {
            "heading": names[id(item[0])],
            **_section(number, item, arrays, len(made)),
            "scatter": scatter(item[0], arrays, known, groups=sharing, compute=tsne),
        }
        for number, item in enumerate(made)
    ]
    return {
        "title": title or _title(rows),
        "counts": _counts(rows),
        "finished": span(rows),
        "sentences": spoken,
        "caveat": caveat(spoken),
        "data": _data(rows, known),
        "matrices": matrices(made),
        "forests": all_differences(made),
        "depths": depths(rows),
        "sections": sections,
        "machine": machine(rows),
        "problems": sorted(set(arrays.problems.values())),
        "settings": settings_name,
    }


def _section(number: int, item: Made, arrays: Arrays, total: int) -> dict[str, Any]:
    group, comparison, listed = item
    return {
        "id": f"comparison-{number + 1}",
        "data": group.data,
        "backbone": group.backbone,
        "settings": group.settings_name,
        "overrides": [
            {"name": name, "value": setting(value)} for name, value in group.overrides.items()
        ],
        "split": group.split,
        "scheme": SCHEMES.get(group.split, ""),
        "open": total <= OPEN or number == 0,
        "metric": comparison.metric,
        "lines": listed,
        "paper": any(line["paper"] for line in listed),
        "all": any(line["all"] for line in listed),
        "verdict": told(comparison) if total > 1 else "",
        "notes": _notes(group, listed),
        "failures": failures(group.rows),
        "forest": forest(listed),
        "charts": charts(group, arrays.curves),
        "embedded": any(arrays.has(row.key) for row in group.rows),
        "table": settings_table(group),
        "command": command(group),
        "needs_place": needs_place(group),
    }


def _notes(group: Group, listed: list[dict[str, Any]]) -> list[str]:
    found = []
    if BASELINE not in group.aggrs:
        found.append(
            "The baseline, the backbone's own aggregation ('none'), was not run: nothing can be "
            "compared with it."
        )
    short = [f"{line['aggr']} {line['missing']}" for line in listed if line["missing"] > 0]
    if short:
        found.append(f"Not on all splits yet; missing runs: {', '.join(short)}.")
    single = [line["aggr"] for line in listed if line["n"] == 1]
    if single:
        found.append(
            f"A single run tells nothing about the spread over splits: {', '.join(single)}."
        )
    if group.data == "ppi-go":
        found.append(PPI_GO)
    return found


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    return {
        "runs": len(rows),
        "failed": sum(row.status != "ok" for row in rows),
        "diverged": sum(row.status == "diverged" for row in rows),
    }


def _data(rows: Sequence[Row], known: KnownNodes) -> list[dict[str, Any]]:
    r"""The data sets; two of one name are told apart by their hash."""
    found = []
    for data, data_hash in dict.fromkeys((row.data, row.data_hash) for row in rows):
        own = [row for row in rows if (row.data, row.data_hash) == (data, data_hash)]
        nodes = known.at_hand(data_hash)
        schemes = {
            split: len({row.split_seed for row in own if row.split == split})
            for split in dict.fromkeys(row.split for row in own)
        }
        found.append(
            {
                "name": data,
                "hash": data_hash,
                "size": nodes.counts if nodes else _paper_size(data),
                "runs": len(own),
                "splits": [
                    {"scheme": split, "count": count, "means": SCHEMES.get(split, "")}
                    for split, count in schemes.items()
                ],
            }
        )
    return found


def _paper_size(data: str) -> str:
    counts = paper_counts(data)
    if counts is None:
        return ""
    return (
        f"{counts.nodes:,} nodes, {counts.edges:,} edges, {counts.features:,} features, "
        f"{counts.classes:,} classes (the paper's Table 1)"
    )


def _title(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row.data for row in rows))
    if not names:
        return "No runs yet"
    return f"From mean to max on {', '.join(names[:-1])}{' and ' if names[1:] else ''}{names[-1]}"

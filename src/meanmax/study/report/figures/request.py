r"""All figures by name, what to show in them, and what to say if there is nothing to show.

Nothing here imports PyTorch or matplotlib until a figure is drawn.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanmax.data.fetch.catalog import CATALOG
from meanmax.data.files import replacing
from meanmax.study.paper.result_tables import AGGRS, BACKBONES, PPI, SETS
from meanmax.study.report.embeddings import LabelSource
from meanmax.study.report.evidence import Evidence, completed_runs
from meanmax.study.settings.settings import NAMES, option_text, override_options
from meanmax.study.stats.cells import Selected
from meanmax.study.store.store import reported

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PUBLISHED = "published"
CITATION = SETS[:3]
FORMATS = ("svg", "png")
DPI = 200


class NothingToShow(Exception):  # noqa: N818 - missing runs are no error
    r"""Runs or artefacts that a figure needs are missing; the message says what makes them."""


@dataclass(frozen=True)
class FigureRequest:
    r"""What to show. Empty fields are filled in by :meth:`completed` before a figure is drawn.

    Data sets have their names in rows; :obj:`sources` has the paths of the user's own graphs by
    these names. The baseline is the first of the aggregators, overrides win over the settings file,
    and all figures of a command share the labels of nodes.
    """

    data: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    aggrs: tuple[str, ...] = AGGRS
    settings_name: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    labels: LabelSource = field(default_factory=LabelSource)

    def named(self, evidence: Evidence) -> FigureRequest:
        r"""Replaces paths among the data by the names that rows have for these graphs: the name
        of their folder or file.
        """
        there, names = {row.data for row in evidence.rows}, {}
        for source in self.data:
            name = Path(source).resolve().name
            tried = (source, name, name.partition(".")[0], f"{name} (own)")
            names[source] = next((name for name in tried if name in there), source)
        own = {name: source for source, name in names.items() if source != name}
        return replace(self, data=tuple(names.values()), sources={**self.sources, **own})

    def completed(self, kind: FigureKind, evidence: Evidence) -> FigureRequest:
        r"""Fills in data sets, backbones and settings from what the store holds.

        The figure's own data sets and backbones are taken if the store has runs of any of them,
        and otherwise all that it has; on other data sets, the backbones that have runs. Of the
        settings of these runs the published ones are taken, or else those that most runs have.
        """
        rows = [
            row
            for row in evidence.rows
            if (not self.data or row.data in self.data)
            and (not self.backbones or row.backbone in self.backbones)
            and self.settings_name in (None, row.settings_name)
        ]
        data = self.data or _held(kind.data, (row.data for row in rows))
        rows = [row for row in rows if row.data in data]
        there = [row.backbone for row in rows]
        own = kind.backbones if data == kind.data else [b for b in kind.backbones if b in there]
        backbones = self.backbones or _held(own or kind.backbones, there)
        counts = Counter(row.settings_name for row in rows if row.backbone in backbones)
        settings = PUBLISHED
        if counts and PUBLISHED not in counts and not kind.published:
            settings = counts.most_common(1)[0][0]
        settings = self.settings_name or settings
        return replace(self, data=data, backbones=backbones, settings_name=settings)

    def selected(self, evidence: Evidence, data: str, scheme: str | None = None) -> Selected:
        r"""The rows of a data set that have the requested settings."""
        name = self.settings_name or PUBLISHED
        return evidence.selected(data, name, self.overrides, scheme)

    def command(self, evidence: Evidence, *more: str) -> str:
        r"""The command that makes the runs."""
        ppi = [name for name in self.data if name in PPI]
        tabled = [name for name in self.data if name in CATALOG and name not in ppi]
        found = []
        for table, names in (("table2", tabled), ("table4", ppi)):
            if names:
                words = ["meanmax", "reproduce", table, "--data", ",".join(names)]
                words += ["--backbone", ",".join(self.backbones)]
                found.append((words, PUBLISHED, "--store"))
        for name in self.data:
            for backbone in self.backbones if name not in CATALOG else ():
                words = ["meanmax", "compare", "--data", self.sources.get(name, name)]
                found.append(([*words, "--backbone", backbone], "default", "--out"))
        commands = []
        for words, default, store in found:
            words += more
            if self.settings_name not in (None, default):
                words += ["--settings", str(self.settings_name)]
            words += override_options(self.overrides)
            commands.append(shlex.join(words + evidence.store_option(store)))
        return " && ".join(commands)

    def missing(self, evidence: Evidence, what: str, *more: str, why: str = "") -> NothingToShow:
        r"""The error that says what is missing on the data sets, and the command that makes it."""
        own = {row.settings_name for row in evidence.rows if row.data in self.data}
        others = [name for name in NAMES if name in own - {self.settings_name}]
        there = "".join(f"; there are runs with --settings {name}" for name in others)
        return NothingToShow(
            f"there are no {what} {', '.join(self.data)} with {self.settings}{why}; this command "
            f"makes them: {self.command(evidence, *more)}{there}"
        )

    def artefacts(self, evidence: Evidence) -> list[str]:
        r"""The option that repeats runs whose rows are there without an artefact."""
        there = any(
            completed_runs(chosen, backbone, aggr)
            for chosen in (self.selected(evidence, name) for name in self.data)
            for backbone in self.backbones
            for aggr in self.aggrs
        )
        return ["--artefacts"] if there and evidence.folder is not None else []

    @property
    def settings(self) -> str:
        r"""The settings, for a title."""
        changed = "".join(f", {name}={option_text(x)}" for name, x in self.overrides.items())
        return f"{self.settings_name} settings{changed}"


def _held(own: Sequence[str], there: Iterable[str]) -> tuple[str, ...]:
    r"""A figure's own names if any of them is there, or else all that are there."""
    found = tuple(dict.fromkeys(there))
    return tuple(own) if not found or set(own) & set(found) else found


@dataclass(frozen=True)
class FigureKind:
    r"""A kind of figure: what it shows, in a line, the module and the function that draw it, and
    its own backbones and data sets.

    :obj:`picture` says what gets a separate picture: :obj:`"backbone"`, or :obj:`"data"` for each
    backbone on each data set; :obj:`"all"` is one picture of everything. A :obj:`published` figure
    shows runs with published settings only.
    """

    what: str
    function: str
    backbones: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    picture: str = "backbone"
    published: bool = False
    needs_runs: bool = True

    def draw(self, evidence: Evidence, request: FigureRequest | None = None) -> Figure:
        r"""Draws one picture, or raises :class:`NothingToShow`."""
        request = (request or FigureRequest()).completed(self, evidence)
        module, _, name = self.function.partition(".")
        drawing = getattr(import_module(f"meanmax.study.report.figures.{module}"), name)
        figure: Figure = drawing(evidence, request)
        return figure


FIGURES = {
    "tsne": FigureKind(
        "2-D t-SNE of hidden embeddings, with silhouette scores",
        "tsne.tsne",
        ("gcn", "gat"),
        ("photo", "computers"),
        picture="data",
    ),
    "losses": FigureKind("training loss against epoch", "curves.losses", ("gcn",), CITATION),
    "depth": FigureKind(
        "accuracy against the number of layers",
        "by_layer.depth",
        ("gcn",),
        CITATION,
        published=True,
    ),
    "parameter": FigureKind(
        "the learned parameter over epochs", "curves.parameter", ("gcn", "gat"), SETS
    ),
    "maxness": FigureKind("maxness of every layer", "by_layer.maxness", ("gcn", "gat"), SETS),
    "forest": FigureKind(
        "paired differences to the baseline, with intervals",
        "forest.forest",
        BACKBONES,
        SETS,
        "all",
    ),
    "tasks": FigureKind(
        "differences to the equally tuned baseline on all tasks", "tasks.tasks", picture="all"
    ),
    "why": FigureKind("what predicts the difference to the baseline", "why.why", picture="all"),
    "path": FigureKind("the path from mean to max", "curves.path", picture="all", needs_runs=False),
}


def pictures(
    name: str, request: FigureRequest, evidence: Evidence | None = None
) -> dict[str, FigureRequest]:
    r"""The pictures that a request consists of, by the name of their files without suffix.

    Example:
        >>> list(pictures("tsne", FigureRequest()))
        ['tsne-gcn-photo', 'tsne-gat-computers']
        >>> list(pictures("losses", FigureRequest(data=("cora",), settings_name="default")))
        ['losses-gcn-cora-default']
    """
    kind = FIGURES[name]
    if not kind.needs_runs:
        return {name: request}
    evidence = evidence or Evidence()
    held = request.completed(kind, evidence)
    there = list(dict.fromkeys((row.backbone, row.data) for row in evidence.rows))
    if kind.picture == "all":
        found = [request]
    elif kind.picture == "backbone":
        found = [replace(request, backbones=(b,)) for b in held.backbones]
    else:
        pairs = [(b, d) for b, d in there if b in held.backbones and d in held.data]
        if request.data:
            pairs = [
                (b, d)
                for d in request.data
                for b in request.backbones
                or [b for b in held.backbones if (b, d) in there][:1]
                or kind.backbones[:1]
            ]
        elif held.data == kind.data:
            own = dict(zip(kind.backbones, kind.data, strict=True))
            pairs = [(b, own.get(b, kind.data[0])) for b in held.backbones]
        found = [replace(request, backbones=(b,), data=(d,)) for b, d in pairs]
    return {_stem(name, one): one for one in found}


def _stem(name: str, request: FigureRequest) -> str:
    words = [name, *request.backbones, *(Path(source).name for source in request.data)]
    words += [request.settings_name] if request.settings_name not in (None, PUBLISHED) else []
    words += [f"{setting}={value}" for setting, value in request.overrides.items()]
    return "-".join(re.sub(r"[^\w=.]", "_", word) for word in words)


def write_figure(
    figure: Figure, folder: Path, stem: str, formats: Iterable[str] = FORMATS, *, dpi: int = DPI
) -> list[Path]:
    r"""Writes a figure in each format, and returns the files. The resolution is that of what is not
    drawn as lines: the whole PNG, and the points of t-SNE in the SVG.
    """
    import matplotlib

    paths = []
    for kind in formats:
        path = folder / f"{stem}.{kind}"
        metadata = {"Date": None} if kind == "svg" else None
        # Text stays text, and identifiers do not change from one run to the next.
        style = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "meanmax"})
        with reported(path), replacing(path) as temporary, style:
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
        paths.append(path)
    return paths

r"""What a figure is asked to show, and what is said if there is nothing to show."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from meanmax.data.fetch.catalog import CATALOG
from meanmax.data.files import replacing
from meanmax.study.paper.tables import AGGRS
from meanmax.study.report.evidence import Evidence, good
from meanmax.study.settings.settings import NAMES
from meanmax.study.stats.cells import Selected
from meanmax.study.store.store import DEFAULT_STORE, reported


class NothingToShow(Exception):  # noqa: N818 - it is no error that runs are still to be made
    r"""Runs or artefacts that a figure needs are missing; the message says what makes them."""


@dataclass(frozen=True)
class FigureRequest:
    r"""What to show.

    Args:
        data (tuple): The data sets, by what rows call them; empty for the figure's own.
        sources (mapping): Where graphs of one's own lie, by what rows call them.
        backbones (tuple): The backbones; empty for the figure's own.
        aggrs (tuple): The aggregators, the baseline first.
        settings_name (str): The settings file.
        overrides (mapping): Settings in place of the file's.
        data_dir (Path, optional): Where to look for data first.
    """

    data: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    aggrs: tuple[str, ...] = AGGRS
    settings_name: str = "published"
    overrides: Mapping[str, Any] = field(default_factory=dict)
    data_dir: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    def named(self, evidence: Evidence) -> FigureRequest:
        r"""The same, with paths among the data replaced by what rows call the graphs there: by
        the name of their folder or file.

        Args:
            evidence (Evidence): The rows.
        """
        there = {row.data for row in evidence.rows}
        names = {source: _name(source, there) for source in self.data}
        own = {name: source for source, name in names.items() if source != name}
        return replace(self, data=tuple(names.values()), sources={**self.sources, **own})

    def selected(self, evidence: Evidence, data: str) -> Selected:
        r"""The rows of a data set that have the settings asked for."""
        return evidence.selected(data, settings_name=self.settings_name, overrides=self.overrides)

    def command(
        self, evidence: Evidence, data: Sequence[str], backbones: Sequence[str], *more: str
    ) -> str:
        r"""The command that makes the runs.

        Args:
            evidence (Evidence): What there is, which tells the store.
            data (sequence): The data sets.
            backbones (sequence): The backbones.
            *more (str): Options besides.
        """
        return " && ".join(
            shlex.join([*words, *more, *self._options(evidence, settings, store)])
            for words, settings, store in _commands(data, backbones, self.sources)
        )

    def remedy(
        self, evidence: Evidence, data: Sequence[str], backbones: Sequence[str], *more: str
    ) -> str:
        r"""What to do where runs are missing; see :meth:`command`."""
        own = {row.settings_name for row in evidence.rows if row.data in data}
        others = [name for name in NAMES if name in own - {self.settings_name}]
        there = "".join(f"; there are runs with --settings {name}" for name in others)
        return f"this makes them: {self.command(evidence, data, backbones, *more)}{there}"

    def artefacts(self, evidence: Evidence, data: Sequence[str], backbone: str) -> list[str]:
        r"""The option without which the runs would not be made, if rows of them are there.

        Args:
            evidence (Evidence): What there is.
            data (sequence): The data sets.
            backbone (str): The backbone.
        """
        chosen = [self.selected(evidence, name) for name in data]
        there = any(good(own, backbone, aggr) for own in chosen for aggr in self.aggrs)
        return ["--artefacts"] if there and evidence.folder is not None else []

    def _options(self, evidence: Evidence, default: str, store: str) -> list[str]:
        words = []
        if self.settings_name != default:
            words += ["--settings", self.settings_name]
        for name, value in self.overrides.items():
            words += ["--set", f"{name}={_text(value)}"]
        folder = evidence.folder
        if folder is not None and str(folder) != DEFAULT_STORE:
            words += [store, str(folder)]
        return words

    @property
    def what(self) -> str:
        r"""The settings, for a title."""
        changed = "".join(f", {name}={_text(x)}" for name, x in self.overrides.items())
        return f"{self.settings_name} settings{changed}"


def _name(source: str, there: Container[str]) -> str:
    own = Path(source).resolve().name
    names = (source, own, own.partition(".")[0], f"{own} (own)")
    return next((name for name in names if name in there), source)


def _commands(
    data: Sequence[str], backbones: Sequence[str], sources: Mapping[str, str]
) -> list[tuple[list[str], str, str]]:
    r"""Words, the settings they take by themselves, and the option for the store."""
    found = []
    ppi = [name for name in data if name in ("ppi", "ppi-go")]
    tabled = [name for name in data if name in CATALOG and name not in ppi]
    for table, names in (("table2", tabled), ("table4", ppi)):
        if names:
            words = ["meanmax", "reproduce", table, "--data", ",".join(names)]
            found.append(([*words, "--backbone", ",".join(backbones)], "published", "--store"))
    for name in data:
        if name not in CATALOG:
            for backbone in backbones:
                words = ["meanmax", "compare", "--data", sources.get(name, name)]
                words += ["--backbone", backbone]
                found.append((words, "tuned", "--out"))
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


FORMATS = ("svg", "png")
DPI = 200


def write_figure(
    figure: Figure, folder: Path, stem: str, formats: Iterable[str] = FORMATS, *, dpi: int = DPI
) -> list[Path]:
    r"""Writes a figure in each format; the files.

    Args:
        figure (Figure): The figure.
        folder (Path): Where to; it is made.
        stem (str): The name of the files without suffix.
        formats (iterable, optional): Out of :obj:`FORMATS`. (default: both)
        dpi (int, optional): Dots to an inch of what is no line: the whole PNG, and the points of
            t-SNE in the SVG. (default: :obj:`200`)
    """
    paths = []
    for kind in formats:
        path = folder / f"{stem}.{kind}"
        metadata = {"Date": None} if kind == "svg" else None
        # Letters stay letters, and identifiers do not change from one run to the next.
        style = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "meanmax"})
        with reported(path), replacing(path) as temporary, style:
            figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
        paths.append(path)
    return paths

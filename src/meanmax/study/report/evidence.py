r"""What figures and the page are made from: rows and artefacts, and nothing else."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.study.report.charts import CURVES, LEARNED
from meanmax.study.runs.row import Artefact, Row
from meanmax.study.settings.settings import settings_for
from meanmax.study.stats.cells import Selected, select
from meanmax.study.store.exports import read_curves, read_rows
from meanmax.study.store.store import Store, StoreError


@dataclass(frozen=True)
class Evidence:
    r"""Rows, and the arrays of each run.

    Example:
        >>> Evidence.nothing().artefact("a key") is None
        True

    Args:
        rows (sequence): The rows.
        artefact (callable): The arrays of a run by its key, or :obj:`None`.
        folder (Path, optional): The folder of the store; :obj:`None` for an exported file.
    """

    rows: Sequence[Row]
    artefact: Callable[[str], Artefact | None]
    folder: Path | None = None

    @classmethod
    def of(cls, path: Path) -> Evidence:
        r"""The evidence in a store, or in a file of rows that was exported from one.

        An export has no artefacts but the curves of a Parquet file beside it: that of
        :obj:`rows.jsonl` is :obj:`rows.curves.parquet`, :obj:`rows-curves.parquet` or
        :obj:`curves.parquet`, the first that is there.

        Args:
            path (Path): A store's folder, or a :obj:`.jsonl` or :obj:`.parquet` file.
        """
        path = Path(path)
        if path.is_dir():
            store = Store(path, create=False)
            return cls(store.rows(), store.artefact, path)
        rows = read_rows(path)
        names = (f"{path.stem}.curves.parquet", f"{path.stem}-curves.parquet", "curves.parquet")
        beside = [path.with_name(name) for name in names if name != path.name]
        for file in beside:
            if file.exists():
                return cls(rows, read_curves(file).get)
        return cls(rows, _none)

    @classmethod
    def nothing(cls) -> Evidence:
        r"""No run at all."""
        return cls([], _none)

    @property
    def derived(self) -> Path | None:
        r"""Where results of long computations on artefacts are kept."""
        return None if self.folder is None else self.folder / "derived"

    def selected(
        self,
        data: str,
        *,
        settings_name: str = "published",
        overrides: Mapping[str, Any] | None = None,
        scheme: str | None = None,
    ) -> Selected:
        r"""The rows of one data set that may be shown together.

        Args:
            data (str): The data set.
            settings_name (str, optional): The settings file. (default: :obj:`"published"`)
            overrides (mapping, optional): Settings that win over the file's.
                (default: :obj:`None`)
            scheme (str, optional): The scheme of splits. (default: what most rows have)
        """

        def wanted(backbone: str, aggr: str, data: str) -> dict[str, Any]:
            return settings_for(settings_name, backbone, aggr, data, overrides)

        return select(self.rows, data, wanted, scheme)


def good(selected: Selected, backbone: str, aggr: str) -> list[Row]:
    r"""The runs of one method that ended well, by the seed of their split.

    Args:
        selected (Selected): Rows of one data set.
        backbone (str): The backbone.
        aggr (str): The aggregator.
    """
    rows = selected.of(backbone, aggr)
    return [rows[seed] for seed in sorted(rows) if rows[seed].status == "ok"]


def _none(key: str) -> Artefact | None:
    return None


class Arrays:
    r"""Reads artefacts and keeps what is small of them.

    Args:
        evidence (Evidence): Where they come from.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.problems: dict[str, str] = {}
        self._curves: dict[str, dict[str, np.ndarray] | None] = {}
        self._path: Callable[[str], Path] | None = None
        if evidence.folder is not None:
            self._path = Store(evidence.folder, create=False).artefact_path

    def artefact(self, key: str) -> Artefact | None:
        r"""All arrays of a run. One that is damaged becomes a problem, not the end of the page."""
        try:
            return self.evidence.artefact(key)
        except StoreError as error:
            self.problems[key] = str(error)
            return None

    def curves(self, key: str) -> dict[str, np.ndarray] | None:
        r"""What a run has for each epoch."""
        if key not in self._curves:
            self._curves[key] = self._some(key, _is_curve)
        return self._curves[key]

    def has(self, key: str) -> bool:
        r"""Whether a run has an artefact in the store."""
        return self._path is not None and self._path(key).exists()

    def array(self, key: str, name: str) -> np.ndarray | None:
        r"""One array of a run, or :obj:`None`."""
        return (self._some(key, name.__eq__) or {}).get(name)

    def _some(self, key: str, wanted: Callable[[str], bool]) -> dict[str, np.ndarray] | None:
        r"""Some arrays alone: to unpack the embeddings of 800 runs takes a minute."""
        if self._path is not None:
            try:
                with np.load(self._path(key), allow_pickle=False) as file:
                    return {name: file[name] for name in file.files if wanted(name)}
            except FileNotFoundError:
                return None
            except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
                pass  # what is wrong with it is said below
        found = self.artefact(key)
        return found and {name: array for name, array in found.items() if wanted(name)}


def _is_curve(name: str) -> bool:
    return name in CURVES or name.startswith(LEARNED)

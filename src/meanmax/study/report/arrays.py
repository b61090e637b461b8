r"""The arrays of runs as the page needs them, each artefact read once."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from meanmax.study.runs.row import Artefact
from meanmax.study.store.store import (Store, StoreError)
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.charts import (CURVES, LEARNED)


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

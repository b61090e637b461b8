r"""The arrays of runs as the page needs them, each artefact read once."""

from __future__ import annotations

import numpy as np

from meanmax.experiments.row import Artefact
from meanmax.experiments.store import StoreError
from meanmax.report.evidence import Evidence
from meanmax.report.series import CURVES, LEARNED


class Arrays:
    r"""Reads artefacts and keeps what is small of them.

    Args:
        evidence (Evidence): Where they come from.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.problems: dict[str, str] = {}
        self._curves: dict[str, dict[str, np.ndarray] | None] = {}

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
            found = self.artefact(key)
            self._curves[key] = found and {
                name: array
                for name, array in found.items()
                if name in CURVES or name.startswith(LEARNED)
            }
        return self._curves[key]

r"""What figures and the page are made from: rows and artefacts of a store or an export."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.study.runs.row import Artefact, Row
from meanmax.study.settings.settings import SettingsError, settings_for
from meanmax.study.stats.cells import Selected, select
from meanmax.study.store.exports import read_curves, read_rows
from meanmax.study.store.store import Store, StoreError

LEARNED = "learned/"
r"""Prefix of the arrays that hold a learned parameter by epoch."""

CURVES = {
    "train_loss": "Training loss",
    "val_loss": "Validation loss",
    "val_score": "Validation score",
}
r"""Arrays with one value per epoch, and their titles."""


class Evidence:
    r"""Rows, and the arrays of each run.

    Example:
        >>> Evidence().artefact("a key") is None
        True

    Args:
        rows (sequence, optional): The rows. (default: :obj:`()`)
        curves (mapping, optional): Arrays by the key of their run, for rows without a store.
        store (Store, optional): The store that holds the artefacts.
        tolerant (bool, optional): Whether a damaged artefact is recorded in :obj:`problems`
            and treated as missing, instead of raising :class:`StoreError`.
            (default: :obj:`False`)
    """

    def __init__(
        self,
        rows: Sequence[Row] = (),
        curves: Mapping[str, Artefact] | None = None,
        store: Store | None = None,
        *,
        tolerant: bool = False,
    ) -> None:
        self.rows = rows
        self.problems: dict[str, str] = {}
        self._exported = curves or {}
        self._store = store
        self._tolerant = tolerant
        self._curves: dict[str, Artefact] = {}

    @classmethod
    def of(cls, path: Path, *, tolerant: bool = False) -> Evidence:
        r"""Reads a store, or a file of rows that was exported from one.

        An export has no artefacts except the curves of a Parquet file beside it: for
        :obj:`rows.jsonl` this is the first of :obj:`rows.curves.parquet`,
        :obj:`rows-curves.parquet` and :obj:`curves.parquet` that exists.

        Args:
            path (Path): A store's folder, or a :obj:`.jsonl` or :obj:`.parquet` file.
            tolerant (bool, optional): See above. (default: :obj:`False`)
        """
        path = Path(path)
        if path.is_dir():
            store = Store(path, create=False)
            return cls(store.rows(), store=store, tolerant=tolerant)
        rows = read_rows(path)
        names = (f"{path.stem}.curves.parquet", f"{path.stem}-curves.parquet", "curves.parquet")
        beside = (path.with_name(name) for name in names if name != path.name)
        file = next((file for file in beside if file.exists()), None)
        return cls(rows, None if file is None else read_curves(file), tolerant=tolerant)

    @property
    def folder(self) -> Path | None:
        r"""The folder of the store; :obj:`None` for an exported file."""
        return None if self._store is None else self._store.folder

    @property
    def derived(self) -> Path | None:
        r"""The folder that caches results of long computations on artefacts."""
        return None if self.folder is None else self.folder / "derived"

    def has_artefact(self, key: str) -> bool:
        r"""Whether the store has an artefact of a run."""
        return self._store is not None and self._store.artefact_path(key).exists()

    def artefact(
        self, key: str, wanted: Callable[[str], bool] = lambda name: True
    ) -> Artefact | None:
        r"""The wanted arrays of a run by name, or :obj:`None` if it has no artefact."""
        if self._store is None:
            found = self._exported.get(key)
            return found and {name: array for name, array in found.items() if wanted(name)}
        try:
            return self._store.artefact(key, wanted)
        except StoreError as error:
            if not self._tolerant:
                raise
            self.problems[key] = str(error)
            return None

    def array(self, key: str, name: str) -> np.ndarray | None:
        r"""One array of a run, or :obj:`None`."""
        return (self.artefact(key, name.__eq__) or {}).get(name)

    def curves(self, key: str) -> Artefact:
        r"""The arrays of a run whose first axis is the epoch; empty if it has no artefact."""
        if key not in self._curves:  # a baseline is part of several comparisons
            self._curves[key] = self.artefact(key, _is_curve) or {}
        return self._curves[key]

    def selected(
        self,
        data: str,
        settings_name: str = "published",
        overrides: Mapping[str, Any] | None = None,
        scheme: str | None = None,
    ) -> Selected:
        r"""The rows of one data set that may be shown together.

        Args:
            data (str): The data set.
            settings_name (str, optional): The settings file. For one that is not in the package,
                the settings of a method are those of its first row.
                (default: :obj:`"published"`)
            overrides (mapping, optional): Settings that win over the file's.
                (default: :obj:`None`)
            scheme (str, optional): The scheme of splits. (default: what most rows have)
        """

        def wanted(backbone: str, aggr: str, data: str) -> dict[str, Any]:
            try:
                return settings_for(settings_name, backbone, aggr, data, overrides)
            except SettingsError:
                method = (data, backbone, aggr, settings_name)
                own = [
                    r for r in self.rows if (r.data, r.backbone, r.aggr, r.settings_name) == method
                ]
                if not own or overrides:
                    raise
                return own[0].settings

        return select(self.rows, data, wanted, scheme)


def completed_runs(selected: Selected, backbone: str, aggr: str) -> list[Row]:
    r"""The successful runs of one method, ordered by the seed of their split."""
    rows = selected.of(backbone, aggr)
    return [rows[seed] for seed in sorted(rows) if rows[seed].status == "ok"]


def _is_curve(name: str) -> bool:
    return name in CURVES or name.startswith(LEARNED)

r"""What figures and the page are made from: rows and artefacts of a store or an export."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from meanmax.study.report.embeddings import is_placeable
from meanmax.study.report.why import FactsByKey, read_facts
from meanmax.study.runs.row import Artefact, Row
from meanmax.study.settings.settings import AUTO, SettingsError, settings_for
from meanmax.study.stats.cells import Selected, last_searched, select
from meanmax.study.store.exports import read_curves, read_rows
from meanmax.study.store.store import DEFAULT_STORE, Store, StoreError

LEARNED = "learned/"  # prefix of the arrays that hold a learned parameter by epoch
CURVES = {
    "train_loss": "Training loss",
    "val_loss": "Validation loss",
    "val_score": "Validation score",
}
r"""Arrays with one value per epoch, and their titles."""


class Evidence:
    r"""Rows, and the arrays of each run, from a store or exported ones by the key of their run.

    A tolerant one records a damaged artefact in :obj:`problems` and treats it as missing, instead
    of raising :class:`StoreError`. :obj:`folder` is the store's, and :obj:`derived` caches results
    of long computations on artefacts; both are :obj:`None` for exported rows.

    Example:
        >>> Evidence().artefact("a key") is None
        True
    """

    def __init__(
        self,
        rows: Sequence[Row] = (),
        curves: Mapping[str, Artefact] | None = None,
        store: Store | None = None,
        *,
        path: Path | None = None,
        tolerant: bool = False,
    ) -> None:
        self.rows = rows
        self.path = path
        self.folder = None if store is None else store.folder
        self.derived = None if store is None else store.folder / "derived"
        self.problems: dict[str, str] = {}
        self._exported = curves or {}
        self._store = store
        self._tolerant = tolerant
        self._curves: dict[str, Artefact] = {}

    @classmethod
    def of(cls, path: Path, *, tolerant: bool = False) -> Evidence:
        r"""Reads a store, or a file of rows that was exported from one.

        An export has no artefacts except the curves of a Parquet file next to it: for
        :obj:`rows.jsonl` this is the first of :obj:`rows.curves.parquet`,
        :obj:`rows-curves.parquet` and :obj:`curves.parquet` that exists.
        """
        if path.is_dir():
            store = Store(path, create=False)
            return cls(store.rows(), store=store, path=path, tolerant=tolerant)
        rows = read_rows(path)
        names = (f"{path.stem}.curves.parquet", f"{path.stem}-curves.parquet", "curves.parquet")
        beside = (path.with_name(name) for name in names if name != path.name)
        file = next((file for file in beside if file.exists()), None)
        curves = None if file is None else read_curves(file)
        return cls(rows, curves, path=path, tolerant=tolerant)

    @cached_property
    def facts(self) -> FactsByKey:
        r"""The facts of data sets in the file next to the rows, if there is one."""
        return {} if self.path is None else read_facts(self.path)

    @cached_property
    def options(self) -> dict[frozenset[str], list[str]]:
        r"""The options of comparisons that their rows do not tell of, by the keys of the rows; from
        the files that `meanmax compare` writes next to them.
        """
        found: dict[frozenset[str], list[str]] = {}
        files = [] if self.folder is None else self.folder.glob("compare-*.json")
        for path in sorted(files, key=lambda path: path.stat().st_mtime):
            with suppress(OSError, ValueError, KeyError, TypeError):  # another kind of file
                facts = json.loads(path.read_text("utf-8"))
                found[frozenset(facts["keys"])] = [str(word) for word in facts["options"]]
        return found

    def store_option(self, option: str) -> list[str]:
        r"""The option that names the store, unless it is the default one."""
        folder = self.folder
        return [] if folder is None or str(folder) == DEFAULT_STORE else [option, str(folder)]

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

    def embedding(self, key: str) -> np.ndarray | None:
        r"""The embedding of a run, if t-SNE accepts it."""
        found = self.array(key, "embedding")
        return found if found is not None and is_placeable(found) else None

    def curves(self, key: str) -> Artefact:
        r"""The arrays of a run whose first axis is the epoch; empty if it has no artefact."""
        if key not in self._curves:  # a baseline is part of several comparisons
            self._curves[key] = (
                self.artefact(key, lambda name: name in CURVES or name.startswith(LEARNED)) or {}
            )
        return self._curves[key]

    def selected(
        self,
        data: str,
        settings_name: str = "published",
        overrides: Mapping[str, Any] | None = None,
        scheme: str | None = None,
    ) -> Selected:
        r"""The rows of one data set that may be shown together: those with the settings of a file
        and its overrides, on splits of one scheme, by default the one that most rows have.

        For a file that is not in the package, the settings of a method are those of its first row.
        Settings that were searched differ between splits: the last run of each method and split is
        selected, by the metric of the very last one.
        """
        if settings_name == AUTO and not overrides:
            own = [row for row in self.rows if (row.data, row.settings_name) == (data, AUTO)]
            last = last_searched(own)
            metrics = [row.settings.get("metric") for row in last]
            kept = [row for row, metric in zip(last, metrics, strict=True) if metric == metrics[-1]]
            return select(kept, data, None, scheme)

        def wanted(backbone: str, aggr: str, data: str) -> dict[str, Any]:
            try:
                return settings_for(settings_name, backbone, aggr, data, overrides)
            except SettingsError:
                method = (data, backbone, aggr, settings_name)
                for row in self.rows if not overrides else ():
                    if (row.data, row.backbone, row.aggr, row.settings_name) == method:
                        return row.settings
                raise

        return select(self.rows, data, wanted, scheme)


def completed_runs(selected: Selected, backbone: str, aggr: str) -> list[Row]:
    r"""The successful runs of one method, ordered by the seed of their split."""
    rows = selected.of(backbone, aggr)
    return [rows[seed] for seed in sorted(rows) if rows[seed].status == "ok"]

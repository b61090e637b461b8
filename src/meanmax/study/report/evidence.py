r"""What figures and the page are made from: rows and artefacts, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meanmax.study.store.curves import read_curves
from meanmax.study.store.exports import read_rows
from meanmax.study.runs.row import (Artefact, Row)
from meanmax.study.stats.selection import (Selected, select)
from meanmax.study.settings.settings import settings_for
from meanmax.study.store.store import Store


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

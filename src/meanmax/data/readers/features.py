r"""Categories and missing values, which become features only if this is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from meanmax.data.files import DataError
from meanmax.names import IMPUTATIONS

OneHot: TypeAlias = Sequence[str] | Mapping[str, Sequence[str]]
Impute: TypeAlias = str | Mapping[str, float] | None


@dataclass(frozen=True)
class FeatureOptions:
    r"""What is asked for; see :func:`meanmax.data.load` for the arguments."""

    one_hot: Mapping[str, Sequence[str] | None] = field(default_factory=dict)  # None: those found
    impute: Impute = None

    @classmethod
    def of(cls, one_hot: OneHot = (), impute: Impute = None) -> FeatureOptions:
        r"""Checks the arguments."""
        if isinstance(one_hot, str):
            raise DataError(f"'one_hot' must be a list of columns, such as [{one_hot!r}]")
        if not (impute is None or isinstance(impute, Mapping) or impute in IMPUTATIONS):
            raise DataError(
                f"'impute' must be {', '.join(IMPUTATIONS)}, or the value of each column by its "
                f"name (got {impute!r})"
            )
        return cls(one_hot if isinstance(one_hot, Mapping) else dict.fromkeys(one_hot), impute)

    def value(self, name: str, column: np.ndarray) -> float | None:
        r"""What missing cells of a column become, from its other values; :obj:`None` if this is not
        asked for, or if there are no other values.
        """
        if self.impute is None or self.impute == "zero":
            return None if self.impute is None else 0.0
        if not isinstance(self.impute, str):
            return self.impute.get(name)
        finite = column[np.isfinite(column)].astype(np.float64)
        if not finite.size:
            return None
        return float(np.mean(finite) if self.impute == "mean" else np.median(finite))

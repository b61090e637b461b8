r"""Values that JSON can hold."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    r"""The same with :obj:`None` for numbers that are not finite, however deep.

    Example:
        >>> plain({"mean": float("nan"), "ends": (1.0, float("inf"))})
        {'mean': None, 'ends': [1.0, None]}
    """
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

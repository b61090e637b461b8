r"""What can be wrong with a number of parts."""

from __future__ import annotations

import operator


class PartitionError(ValueError):
    r"""A graph that cannot be divided as asked; the message says what to do."""


def check_parts(parts: int, num_nodes: int) -> int:
    r"""The number of parts, at least one and at most one for each node."""
    try:
        count = operator.index(parts)
    except TypeError:
        count = 0
    if count < 1 or isinstance(parts, bool):
        raise PartitionError(f"'parts' must be a whole number from 1 on (got {parts!r})")
    if count > max(num_nodes, 1):
        raise PartitionError(
            f"{num_nodes:,} nodes cannot make {count:,} parts, none of them empty: ask for at most "
            f"{num_nodes:,}"
        )
    return count

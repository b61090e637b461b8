r"""Which code made the runs of a table.

A run's key says nothing of the code, so that a table goes on where it stopped after an update and
a correction of the documentation makes nothing anew. What that mixes has to be said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from meanmax.study.runs.row import Row

SHOWN = 5  # revisions that are named


def revision(row: Row) -> str:
    r"""The commit that a run was made with, or the version where there is no checkout."""
    return row.commit or f"version {row.versions.get('meanmax', 'unknown')}"


def revision_notes(rows: Sequence[Row]) -> list[str]:
    r"""Sentences on rows that different code has made: none if it was the same for all.

    Args:
        rows (sequence): The rows of one table.
    """
    notes = []
    made = Counter(revision(row) for row in rows)
    if len(made) > 1:
        listed = [f"{name} ({number})" for name, number in made.most_common(SHOWN)]
        listed += [f"{len(made) - SHOWN} more"] if len(made) > SHOWN else []
        notes.append(
            f"The {len(rows)} runs come from {len(made)} revisions of the code: "
            f"{', '.join(listed)}. Stored runs are not made anew when the code changes; in another "
            f"folder they are."
        )
    if several := _libraries(rows):
        notes.append(f"They were made with several versions of libraries: {several}.")
    return notes


def _libraries(rows: Sequence[Row]) -> str:
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row.versions.items():
            found.setdefault(name, set()).add(version)
    return "; ".join(
        f"{name} {' and '.join(sorted(versions))}"
        for name, versions in sorted(found.items())
        if len(versions) > 1 and name != "meanmax"
    )

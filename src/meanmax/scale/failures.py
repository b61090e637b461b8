r"""What a rank says when another one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RankError(RuntimeError):
    r"""Another rank of the job has stopped, or does not answer."""


@contextmanager
def peers_needed() -> Iterator[None]:
    r"""Around a collective operation: its failure becomes a :class:`RankError`."""
    try:
        yield
    except RankError:
        raise
    except RuntimeError as error:
        reason = str(error).strip().splitlines()
        raise RankError(
            "another rank of this job has stopped or does not answer"
            + (f" ({reason[0][:160]})" if reason else "")
            + "; see its own message above, if it left one. MEANMAX_RANK_TIMEOUT=SECONDS gives "
            "slow ranks longer to answer"
        ) from error

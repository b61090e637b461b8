r"""What the runs of a comparison support, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from meanmax.study.stats.paired import Paired, reachable

ALPHA = 0.05
r"""An adjusted p-value below this, and an interval without 0, make a difference."""

CAVEAT = (
    "Random splits of one graph overlap and are not independent: intervals and p-values look "
    "surer than they are."
)


@dataclass(frozen=True)
class Compared:
    r"""A row of a comparison: an aggregator, or the baseline itself.

    Args:
        name (str): What the table calls it.
        mean (float): The mean score in percent; NaN if no run was completed.
        std (float): The standard deviation over the splits; NaN if there is none.
        paired (Paired, optional): The differences to the baseline in points; :obj:`None` for the
            baseline, and for an aggregator that shares no split with it. (default: :obj:`None`)
        adjusted_p (float): Its p-value after :func:`~meanmax.study.stats.paired.holm` over the
            rows of the table. (default: NaN)
        failed (int): The number of runs that failed. (default: 0)
    """

    name: str
    mean: float
    std: float
    paired: Paired | None = None
    adjusted_p: float = math.nan
    failed: int = 0


_Pairs: TypeAlias = list[tuple[Compared, Paired]]


ONE_SPLIT = (
    "All runs are on one split and differ in their seeds alone: nothing is said about other nodes."
)


def verdict(rows: Sequence[Compared], *, baseline: str = "none", one_split: bool = False) -> str:
    r"""Says which aggregators differ from the baseline, on how many splits, what is missing, and
    with what caution to read it.

    An aggregator is better if its interval lies above 0 *and* its adjusted p-value is below 0.05,
    and worse likewise.

    Args:
        rows (sequence): The rows of one table.
        baseline (str): The name of the baseline's row. (default: :obj:`"none"`)
        one_split (bool): Whether all runs are on the same split and only seeds differ.
            (default: :obj:`False`)
    """
    reference = next((row for row in rows if row.name == baseline), None)
    others = [row for row in rows if row.name != baseline]
    if reference is None or math.isnan(reference.mean):
        sentences = [
            f"0 paired splits: the baseline '{baseline}' has no completed run, so no aggregator "
            f"can be judged; run it on the same splits."
        ]
    elif not others:
        sentences = [f"0 paired splits: only the baseline '{baseline}' was run; run others too."]
    else:
        sentences = _findings(reference, others)
    said = " ".join([*sentences, *_failures(rows)])
    if one_split:
        return f"{said.replace('split', 'seed')} {ONE_SPLIT}"
    return f"{said} {CAVEAT}"


def _findings(reference: Compared, others: list[Compared]) -> list[str]:
    pairs = [(row, row.paired) for row in others if row.paired is not None and row.paired.n > 0]
    apart = [row.name for row in others if row.paired is None or row.paired.n == 0]
    missing = f"{_joined(apart)} {_has(apart)} no completed run on the baseline's splits."
    if not pairs:
        return [f"0 paired splits: {missing}"]
    score = f"({reference.mean:.1f}"
    score += ")" if math.isnan(reference.std) else f" ± {reference.std:.1f})"
    text = _differing(score, pairs) or _equal(score, pairs) or _undecided(score, pairs)
    return [text, missing] if apart else [text]


def _differing(score: str, pairs: _Pairs) -> str | None:
    found = {
        "better": [(row, pair) for row, pair in pairs if row.adjusted_p < ALPHA and pair.low > 0],
        "worse": [(row, pair) for row, pair in pairs if row.adjusted_p < ALPHA and pair.high < 0],
    }
    clauses = [
        f"{_names(some)} {'is' if len(some) == 1 else 'are'} {word}"
        for word, some in found.items()
        if some
    ]
    if not clauses:
        return None
    clauses[0] += f" than the baseline {score}"
    certain = found["better"] + found["worse"]
    rest = [row.name for row, _ in pairs if all(row is not other for other, _ in certain)]
    open_clause = f"; {_joined(rest)} cannot be told from it" if rest else ""
    evidence = "; ".join(f"{row.name}: {_evidence(row, pair)}" for row, pair in certain)
    return f"Over {_splits(pairs)}, {_joined(clauses)}{open_clause}. {evidence}."


def _equal(score: str, pairs: _Pairs) -> str | None:
    if any(pair.ties < pair.n for _, pair in pairs):
        return None
    verb = "scores" if len(pairs) == 1 else "score"
    return f"Over {_splits(pairs)}, {_names(pairs)} {verb} exactly as the baseline {score} does."


def _undecided(score: str, pairs: _Pairs) -> str:
    row, pair = max(pairs, key=lambda both: abs(both[1].difference))
    one = len(pairs) == 1
    which = "the difference is" if one else f"the largest difference is {row.name}'s"
    shown = f"{which} {_evidence(row, pair)}."
    splits = _splits(pairs)
    tests = sum(not math.isnan(pair.p) for _, pair in pairs)
    if tests == 0:
        return f"{splits} cannot tell {_names(pairs)} from the baseline {score}; {shown}"
    differing = max(pair.n - pair.ties for _, pair in pairs)
    least = min(p for p in reachable([pair for _, pair in pairs]) if not math.isnan(p))
    if least < ALPHA:
        subject = f"{row.name} does not differ" if one else "No aggregator differs"
        return f"{subject} from the baseline {score} beyond what {splits} can tell; {shown}"
    fewer = differing < max(pair.n for _, pair in pairs)
    only = f" (at most {differing} differ)" if fewer else ""
    needed = 1 + math.ceil(math.log2(tests / ALPHA))
    return (
        f"{splits}{only} are too few to tell {_names(pairs)} from the baseline {score}: the "
        f"smallest adjusted p they can reach is {_p(least)}, and to fall below {ALPHA:g} takes "
        f"{needed} splits that differ; {shown}"
    )


def _evidence(row: Compared, pair: Paired) -> str:
    difference, low, high = _signed(pair.difference, pair.low, pair.high)
    if math.isnan(pair.low):
        return f"{difference} points (one split has no interval and no test)"
    interval = f"{100 * pair.confidence:g} % interval {low} to {high}"
    return f"{difference} points ({interval}, adjusted p {_p(row.adjusted_p)})"


def _splits(pairs: _Pairs) -> str:
    low, high = min(pair.n for _, pair in pairs), max(pair.n for _, pair in pairs)
    if low < high:
        return f"{low} to {high} paired splits"
    return f"{high} paired split" + ("" if high == 1 else "s")


def _failures(rows: Sequence[Compared]) -> list[str]:
    counts = ", ".join(f"{row.name} {row.failed}" for row in rows if row.failed)
    total = sum(row.failed for row in rows)
    return [f"{total} run{'s' if total > 1 else ''} failed ({counts})."] if total else []


def _names(pairs: _Pairs) -> str:
    return _joined([row.name for row, _ in pairs])


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _has(words: list[str]) -> str:
    return "has" if len(words) == 1 else "have"


def _signed(*values: float) -> list[str]:
    """With one decimal, or with more where one of the values would look like 0 and is not."""
    sizes = [abs(value) for value in values if value]
    places = next((places for places in (1, 2) if all(round(s, places) for s in sizes)), 3)
    texts = [f"{value:+.{places}f}" if value else f"{0:.{places}f}" for value in values]
    return [text.replace("-", "−") for text in texts]


def _p(p: float) -> str:
    if math.isnan(p):
        return "undefined"
    return "below 0.001" if p < 0.001 else f"{p:.3g}"

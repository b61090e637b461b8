r"""A comparison in sentences: what the runs support, and how far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from meanmax.study.stats.comparison import ALPHA, Comparison, Line
from meanmax.study.stats.paired import Paired

CAVEAT = (
    "Random splits of one graph overlap and are not independent: intervals tend to be too narrow "
    "and p-values too small."
)
ONE_SPLIT = (
    "All runs are on one split and differ only in their seeds: the result does not extend to other "
    "splits."
)

_Pairs: TypeAlias = list[tuple[Line, Paired]]


def unit_of(one_split: bool) -> str:
    r"""What runs are paired over: seeds if all of them are on one split, else splits."""
    return "seed" if one_split else "split"


def verdict(comparison: Comparison) -> str:
    r"""The :func:`findings`, and how cautiously to read them."""
    text = findings(comparison)
    return text if comparison.one_split else f"{text} {CAVEAT}"


def findings(comparison: Comparison) -> str:
    r"""Which aggregators differ from the baseline, on how many splits, and what is missing.

    An aggregator is better if its interval lies above 0 *and* its adjusted p-value is below 0.05,
    and worse likewise.
    """
    unit, baseline = unit_of(comparison.one_split), comparison.baseline
    reference = next((line for line in comparison.lines if line.aggr == baseline), None)
    others = [line for line in comparison.lines if line.aggr != baseline]
    if reference is None or math.isnan(reference.mean):
        sentences = [
            f"0 paired {unit}s: the baseline '{baseline}' has no completed run, so no aggregator "
            f"can be judged; run it on the same {unit}s."
        ]
    elif not others:
        sentences = [f"0 paired {unit}s: only the baseline '{baseline}' was run; run others too."]
    else:
        sentences = _differences(reference, others, unit)
    sentences += _failures(comparison.lines)
    return " ".join([*sentences, ONE_SPLIT] if comparison.one_split else sentences)


def _differences(reference: Line, others: list[Line], unit: str) -> list[str]:
    pairs = [(line, line.paired) for line in others if line.paired is not None]
    apart = [line.aggr for line in others if line.paired is None]
    verb = "has" if len(apart) == 1 else "have"
    missing = f"{_joined(apart)} {verb} no completed run on the baseline's {unit}s."
    if not pairs:
        return [f"0 paired {unit}s: {missing}"]
    spread = "" if math.isnan(reference.std) else f" ± {reference.std:.1f}"
    baseline = f"the baseline ({reference.mean:.1f}{spread})"
    text = (
        _significant(baseline, pairs, unit)
        or _equal(baseline, pairs, unit)
        or _undecided(baseline, pairs, unit)
    )
    return [text, missing] if apart else [text]


def _significant(baseline: str, pairs: _Pairs, unit: str) -> str | None:
    clauses, shown = [], []
    for word in ("better", "worse"):
        if some := [(line, pair) for line, pair in pairs if line.judgement == word]:
            clauses.append(f"{_names(some)} {'is' if len(some) == 1 else 'are'} {word}")
            shown += [f"{line.aggr}: {_evidence(line, pair, unit)}" for line, pair in some]
    if not clauses:
        return None
    clauses[0] += f" than {baseline}"
    rest = [line.aggr for line, _ in pairs if line.judgement not in ("better", "worse")]
    undecided = f"; {_joined(rest)} cannot be distinguished from it" if rest else ""
    return f"Over {_count(pairs, unit)}, {_joined(clauses)}{undecided}. {'; '.join(shown)}."


def _equal(baseline: str, pairs: _Pairs, unit: str) -> str | None:
    if any(pair.ties < pair.n for _, pair in pairs):
        return None
    verb = "scores" if len(pairs) == 1 else "score"
    return f"Over {_count(pairs, unit)}, {_names(pairs)} {verb} exactly as {baseline} does."


def _undecided(baseline: str, pairs: _Pairs, unit: str) -> str:
    line, pair = max(pairs, key=lambda both: abs(both[1].difference))
    one = len(pairs) == 1
    which = "the difference is" if one else f"the largest difference is {line.aggr}'s"
    shown = f"{which} {_evidence(line, pair, unit)}."
    count = _count(pairs, unit)
    tests = sum(not math.isnan(pair.p) for _, pair in pairs)
    if tests == 0:
        return f"{count} cannot distinguish {_names(pairs)} from {baseline}; {shown}"
    differing = max(pair.n - pair.ties for _, pair in pairs)
    least = min(line.reachable_p for line, _ in pairs if not math.isnan(line.reachable_p))
    if least < ALPHA:
        subject = f"{line.aggr} does not differ" if one else "No aggregator differs"
        return f"{subject} significantly from {baseline} on {count}; {shown}"
    fewer = differing < max(pair.n for _, pair in pairs)
    only = f" (at most {differing} differ)" if fewer else ""
    needed = 1 + math.ceil(math.log2(tests / ALPHA))
    return (
        f"{count}{only} are too few to distinguish {_names(pairs)} from {baseline}: the smallest "
        f"adjusted p they can reach is {_p(least)}, and to fall below {ALPHA:g} takes {needed} "
        f"{unit}s that differ; {shown}"
    )


def _evidence(line: Line, pair: Paired, unit: str) -> str:
    difference, low, high = _signed(pair.difference, pair.low, pair.high)
    if math.isnan(pair.low):
        return f"{difference} points (one {unit} has no interval and no test)"
    interval = f"{100 * pair.confidence:g} % interval {low} to {high}"
    return f"{difference} points ({interval}, adjusted p {_p(line.adjusted_p)})"


def _count(pairs: _Pairs, unit: str) -> str:
    low, high = min(pair.n for _, pair in pairs), max(pair.n for _, pair in pairs)
    if low < high:
        return f"{low} to {high} paired {unit}s"
    return f"{high} paired {unit}" + ("" if high == 1 else "s")


def _failures(lines: Sequence[Line]) -> list[str]:
    counts = ", ".join(f"{line.aggr} {line.failed}" for line in lines if line.failed)
    total = sum(line.failed for line in lines)
    return [f"{total} run{'s' if total > 1 else ''} failed ({counts})."] if total else []


def _names(pairs: _Pairs) -> str:
    return _joined([line.aggr for line, _ in pairs])


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _signed(*values: float) -> list[str]:
    r"""With one decimal, or with more where a value would be rounded to 0."""
    sizes = [abs(value) for value in values if value]
    places = next((places for places in (1, 2) if all(round(s, places) for s in sizes)), 3)
    texts = [f"{value:+.{places}f}" if value else f"{0:.{places}f}" for value in values]
    return [text.replace("-", "−") for text in texts]


def _p(p: float) -> str:
    if math.isnan(p):
        return "undefined"
    return "below 0.001" if p < 0.001 else f"{p:.3g}"

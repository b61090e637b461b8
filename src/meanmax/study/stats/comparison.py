r"""Aggregators compared with the baseline on the same splits, and the comparison in sentences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from meanmax.names import METRICS, REFERENCES, REGRESSION_REFERENCES, Level
from meanmax.study.runs.row import Row, json_safe
from meanmax.study.settings.settings import level_of
from meanmax.study.stats.cells import Selected, learned_values, mean_and_std, score_form, scores
from meanmax.study.stats.paired import Paired, holm, paired, reachable

BASELINE = "none"
MLP = "MLP"
CONSTANT = (REFERENCES["majority"], REGRESSION_REFERENCES["majority"])
r"""Labels of references that predict the same for all nodes."""
WITHOUT_GRAPH = (REFERENCES["logistic"], REGRESSION_REFERENCES["logistic"], MLP)
r"""Labels of references that see features alone."""
ALPHA = 0.05
r"""A difference is significant if its adjusted p is below this and its interval excludes 0."""
CAVEAT = (
    "Splits of the same data overlap and are not independent: intervals tend to be too narrow and "
    "p-values too small."
)
ONE_SPLIT = (
    "All runs are on one split and differ only in their seeds: the result does not extend to other "
    "splits."
)

Judgement: TypeAlias = Literal["better", "worse", "undecided", "too few"]
_Pairs: TypeAlias = "list[tuple[Line, Paired]]"


class Scale(NamedTuple):
    r"""How sentences write scores and differences of a metric."""

    metric: str  # its label
    percent: bool

    @property
    def points(self) -> str:
        r"""The unit of differences."""
        return "points" if self.percent else self.metric

    def score(self, value: float) -> str:
        r"""A score: with one decimal, or four digits of what is not in percent."""
        text = f"{value:.1f}" if self.percent else format(value, score_form(False, value))
        return text.replace("-", "−")

    def signed(self, *values: float) -> list[str]:
        r"""Differences: with one decimal, or with more where a value would be rounded to 0; with
        four digits of the largest of what is not in percent.
        """
        sizes = [abs(value) for value in values if value]
        places = next((places for places in (1, 2) if all(round(s, places) for s in sizes)), 3)
        form = f".{places}f" if self.percent else score_form(False, *values)
        texts = [format(value, f"+{form}" if value else form) for value in values]
        return [text.replace("-", "−") for text in texts]


@dataclass(frozen=True)
class Line:
    r"""One aggregator of a comparison; times are of training, scores as rows store them."""

    aggr: str
    n: int = 0  # runs of status "ok"
    failed: int = 0  # other runs
    mean: float = math.nan
    std: float = math.nan  # over splits; NaN from fewer than two
    val_mean: float = math.nan
    paired: Paired | None = None  # None for the baseline, and where no split is shared with it
    adjusted_p: float = math.nan  # Holm's, over the lines of the comparison
    learned: dict[str, tuple[float, float, float]] = field(default_factory=dict)  # mean, min, max
    maxness: float | None = None  # the mean of layers whose aggregation is not linear
    seconds: float = math.nan  # the median
    alone: bool = False  # whether no run shared the machine with others
    errors: list[str] = field(default_factory=list)
    reachable_p: float = math.nan  # the smallest adjusted p that its number of splits allows

    @property
    def judgement(self) -> Judgement | None:
        r""":obj:`"better"` or :obj:`"worse"` than the baseline if the difference is significant,
        :obj:`"too few"` if no result on so few splits could be, else :obj:`"undecided"`;
        :obj:`None` without differences.
        """
        if self.paired is None:
            return None
        if not self.reachable_p < ALPHA:
            return "too few"
        if self.adjusted_p < ALPHA and self.paired.low > 0:
            return "better"
        return "worse" if self.adjusted_p < ALPHA and self.paired.high < 0 else "undecided"


@dataclass(frozen=True)
class Comparison:
    r"""All aggregators with one backbone on one data set, the baseline first."""

    data: str
    backbone: str
    metric: str  # the name of the score
    lines: list[Line]
    notes: list[str] = field(default_factory=list)
    references: list[Line] = field(
        default_factory=list
    )  # methods without an aggregation to compare
    doubts: list[str] = field(default_factory=list)  # why no winner is named
    one_split: bool = False  # whether all runs are on one split and differ only in their seeds
    baseline: str = BASELINE
    percent: bool = True  # whether scores are in percent, and differences in points
    level: Level = "node"  # what has the labels

    @property
    def unit(self) -> str:
        r"""What runs are paired over."""
        return "seed" if self.one_split else "split"

    @property
    def heading(self) -> str:
        r"""The heading of the scores: the metric and its unit."""
        return f"{self.metric} %" if self.percent else self.metric

    @property
    def scale(self) -> Scale:
        r"""How scores and differences are written."""
        return Scale(self.metric, self.percent)

    @property
    def verdict(self) -> str:
        r"""The :func:`findings`, and how cautiously to read them."""
        return findings(self) if self.one_split else f"{findings(self)} {CAVEAT}"

    def as_dict(self) -> dict[str, Any]:
        r"""The comparison for JSON, with its verdict and the judgement on each line."""
        lines = [{**json_safe(line), "judgement": line.judgement} for line in self.lines]
        return {**json_safe(self), "lines": lines, "verdict": self.verdict}

    def line(self, aggr: str) -> Line | None:
        r"""The line of an aggregator."""
        return next((line for line in self.lines if line.aggr == aggr), None)


def compare(
    selected: Selected,
    backbone: str,
    aggrs: Sequence[str],
    *,
    data: str,
    metric: str = "test_score",
    name: str = "accuracy",
    higher_is_better: bool = True,
    percent: bool = True,
    references: Mapping[str, Sequence[Row]] | None = None,
) -> Comparison:
    r"""Compares aggregators with the baseline, each on the splits that both have, by a
    :obj:`metric` of the rows, which is shown as :obj:`name`. Differences are positive where an
    aggregator is better. The rows of :obj:`references` by label stand beside them, and tell whether
    the comparison is conclusive.
    """
    ordered = sorted(dict.fromkeys(aggrs), key=lambda aggr: aggr != BASELINE)
    rows = {aggr: list(selected.of(backbone, aggr).values()) for aggr in ordered}
    base = scores(selected.of(backbone, BASELINE).values(), metric)
    pairs: dict[str, Paired] = {}
    for aggr in ordered:
        own = scores(rows[aggr], metric)
        shared = sorted(set(own) & set(base))
        if aggr != BASELINE and shared:
            sides = [tuple(scored[s] for s in shared) for scored in (own, base)]
            pairs[aggr] = _paired(*(sides if higher_is_better else reversed(sides)))
    adjusted = holm([pair.p for pair in pairs.values()])
    found: dict[str, dict[str, Any]] = {
        aggr: {"paired": pair, "adjusted_p": p, "reachable_p": least}
        for (aggr, pair), p, least in zip(
            pairs.items(), adjusted, reachable(list(pairs.values())), strict=True
        )
    }
    lines = [_line(aggr, rows[aggr], metric, **found.get(aggr, {})) for aggr in ordered]
    one_split = len({row.split_hash for row in selected.rows}) == 1
    one_split = one_split and len({row.seed for row in selected.rows}) > 1
    beside = [_line(label, list(own), metric) for label, own in (references or {}).items()]
    doubts, scale = [], Scale(name, percent)
    level: Level = level_of(selected.rows[0].settings) if selected.rows else "node"
    if references is not None:
        doubts = _doubts(rows, references, metric, scale, higher_is_better, level)
    notes = list(selected.notes)
    if not higher_is_better:
        notes.append(f"A lower {name} is better: differences are positive where it is lower.")
    facts = (data, backbone, name, lines, notes, beside, doubts, one_split)
    return Comparison(*facts, percent=percent, level=level)


def reference_rows(rows: Iterable[Row], backbone: str) -> dict[str, list[Row]]:
    r"""The rows of references of a backbone by their labels, which depend on the task."""
    found: dict[str, list[Row]] = {}
    for name in (*REFERENCES, "mlp"):
        if name != backbone and (own := [row for row in rows if row.backbone == name]):
            numbers = any(METRICS[row.metric].tasks == ("regression",) for row in own if row.metric)
            labels = REGRESSION_REFERENCES if numbers else REFERENCES
            found[labels.get(name, MLP)] = own
    return found


BALANCED = "test_balanced_accuracy"
NEAR_CHANCE = 0.01
r"""The part of the whole range, or of the error of a constant, by which a method has to be better
than predicting the same for all nodes; with less it has learned nothing.
"""


def _doubts(
    rows: Mapping[str, Sequence[Row]],
    references: Mapping[str, Sequence[Row]],
    metric: str,
    scale: Scale,
    higher_is_better: bool,
    level: Level,
) -> list[str]:
    r"""What speaks against naming a winner: training that stayed at chance or was cut short, and
    references that do better than the best method.
    """
    found, sign = [], 1.0 if higher_is_better else -1.0
    means = {aggr: mean_and_std(scores(own, metric).values())[0] for aggr, own in rows.items()}
    means = {aggr: mean for aggr, mean in means.items() if not math.isnan(mean)}
    if not means:
        return []
    same = [own for label in CONSTANT for own in references.get(label, ())]
    # Any single answer has the same balanced accuracy, but not the same accuracy.
    measure = BALANCED if scale.metric == "accuracy" and _all_have(rows, BALANCED) else metric
    chance = mean_and_std(scores(same, measure).values())[0]
    least = NEAR_CHANCE * ((100 if scale.percent else 1) if higher_is_better else chance)
    stuck = [
        aggr
        for aggr in means
        if sign * (mean_and_std(scores(rows[aggr], measure).values())[0] - chance) < least
    ]
    if stuck:
        what = (
            f"a single answer for all {level}s does" if scale.percent else "the mean of the targets"
        )
        which = "balanced accuracy " if measure == BALANCED else ""
        found.append(
            f"{_joined(stuck)} did not learn more than {what} ({which}{scale.score(chance)})."
        )
    constant = mean_and_std(
        row.metrics["test_majority"]
        for own in rows.values()
        for row in own
        if row.status == "ok" and "test_majority" in row.metrics
    )[0]
    if scale.metric == "accuracy" and max(means.values()) < constant:
        found.append(f"Answering the most frequent class for every {level} scores {constant:.1f}.")
    unfinished = [aggr for aggr, own in rows.items() if _is_unfinished(own)]
    if unfinished:
        verb = "was" if len(unfinished) == 1 else "were"
        found.append(
            f"{_joined(unfinished)} {verb} still improving at the last epoch: raise it with "
            f"--set epochs=N."
        )
    best = max(means, key=lambda aggr: sign * means[aggr])
    ours = scores(rows[best], metric)
    for label, own in references.items():
        theirs = scores(own, metric)
        shared = sorted(set(ours) & set(theirs))
        if label in CONSTANT or not shared:
            continue
        pair = _paired(
            tuple(sign * ours[s] for s in shared), tuple(sign * theirs[s] for s in shared)
        )
        (text,) = scale.signed(-pair.difference)
        without_graph = label in WITHOUT_GRAPH
        if pair.high < 0 or (math.isnan(pair.high) and pair.difference < 0):
            reason = "without the graph" if without_graph else "without features"
            found.append(f"{label}, {reason}, is better than all of them ({text} {scale.points}).")
        elif without_graph and (pair.low <= 0 or pair.difference == 0):
            found.append(
                f"The graph does not clearly help: {label}, without it, is level with {best} "
                f"({text} {scale.points})."
            )
    return found


def _all_have(rows: Mapping[str, Sequence[Row]], metric: str) -> bool:
    every = [row for own in rows.values() for row in own if row.status == "ok"]
    return all(metric in row.metrics for row in every)


def _is_unfinished(rows: Sequence[Row]) -> bool:
    r"""Whether most runs were at their best in the last twentieth of all epochs."""
    good = [row for row in rows if row.status == "ok" and "epochs" in row.settings]
    late = [
        row
        for row in good
        if row.epochs == row.settings["epochs"] and row.best_epoch >= 0.95 * (row.epochs - 1)
    ]
    return len(late) > len(good) / 2


# The page, the tables and the figures of one command compare the same runs, and bootstrap and test
# are most of the work: each pair is computed once.
_paired = lru_cache(maxsize=1024)(paired)


def _line(aggr: str, rows: list[Row], metric: str, **differences: Any) -> Line:
    good = [row for row in rows if row.status == "ok"]
    bad = [row for row in rows if row.status != "ok"]
    mean, std = mean_and_std(scores(good, metric).values())
    nonlinear = [
        value
        for row in good
        for name, value in row.maxness.items()
        if value is not None and _has_aggregator(row, name, value)
    ]
    return Line(
        aggr=aggr,
        n=len(good),
        failed=len(bad),
        mean=mean,
        std=std,
        val_mean=mean_and_std(scores(good, "val_score").values())[0],
        learned={
            name: (statistics.fmean(values), min(values), max(values))
            for name, values in learned_values(good).items()
        },
        maxness=statistics.fmean(nonlinear) if nonlinear else None,
        seconds=statistics.median([row.seconds for row in good]) if good else math.nan,
        alone=bool(good) and all(row.alone for row in good),
        errors=sorted({f"{row.status}: {row.error}" for row in bad}),
        **differences,
    )


def _has_aggregator(row: Row, layer: str, value: float) -> bool:
    r"""Whether a layer has the row's aggregator and not the linear one."""
    if row.learned:
        return _layer(layer) in map(_layer, row.learned)
    return row.aggr != "max" or value > 0


def _layer(name: str) -> str:
    first, *rest = name.split(".")
    return ".".join([first, *(word for word in rest[:1] if word.isdecimal())])


def findings(comparison: Comparison) -> str:
    r"""Which aggregators differ from the baseline, on how many splits, and what is missing; before
    that, what makes the comparison inconclusive.

    An aggregator is better if its interval is above 0 *and* its adjusted p-value is below 0.05, and
    worse if its interval is below 0 and the p-value is.
    """
    unit, baseline = comparison.unit, comparison.baseline
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
        sentences = _differences(reference, others, unit, comparison.scale)
    sentences += _failures(comparison.lines)
    if comparison.doubts:
        sentences = ["Not conclusive:", *comparison.doubts, "What was measured:", *sentences]
    return " ".join([*sentences, ONE_SPLIT] if comparison.one_split else sentences)


def _differences(reference: Line, others: list[Line], unit: str, scale: Scale) -> list[str]:
    pairs = [(line, line.paired) for line in others if line.paired is not None]
    apart = [line.aggr for line in others if line.paired is None]
    verb = "has" if len(apart) == 1 else "have"
    missing = f"{_joined(apart)} {verb} no completed run on the baseline's {unit}s."
    if not pairs:
        return [f"0 paired {unit}s: {missing}"]
    spread = "" if math.isnan(reference.std) else f" ± {scale.score(reference.std)}"
    baseline = f"the baseline ({scale.score(reference.mean)}{spread})"
    text = (
        _significant(baseline, pairs, unit, scale)
        or _equal(baseline, pairs, unit)
        or _undecided(baseline, pairs, unit, scale)
    )
    return [text, missing] if apart else [text]


def _significant(baseline: str, pairs: _Pairs, unit: str, scale: Scale) -> str | None:
    clauses, shown = [], []
    for word in ("better", "worse"):
        if some := [(line, pair) for line, pair in pairs if line.judgement == word]:
            clauses.append(f"{_names(some)} {'is' if len(some) == 1 else 'are'} {word}")
            shown += [f"{line.aggr}: {_evidence(line, pair, unit, scale)}" for line, pair in some]
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


def _undecided(baseline: str, pairs: _Pairs, unit: str, scale: Scale) -> str:
    line, pair = max(pairs, key=lambda both: abs(both[1].difference))
    one = len(pairs) == 1
    which = "the difference is" if one else f"the largest difference is {line.aggr}'s"
    shown = f"{which} {_evidence(line, pair, unit, scale)}."
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


def _evidence(line: Line, pair: Paired, unit: str, scale: Scale) -> str:
    difference, low, high = scale.signed(pair.difference, pair.low, pair.high)
    if math.isnan(pair.low):
        return f"{difference} {scale.points} (one {unit} has no interval and no test)"
    interval = f"{100 * pair.confidence:g} % interval {low} to {high}"
    return f"{difference} {scale.points} ({interval}, adjusted p {_p(line.adjusted_p)})"


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


def _p(p: float) -> str:
    if math.isnan(p):
        return "undefined"
    return "below 0.001" if p < 0.001 else f"{p:.3g}"

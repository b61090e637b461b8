"""The figures of the study: all tasks on one axis, and what predicts a difference."""

import dataclasses
import json

import pytest

from meanmax.study.report.evidence import Evidence
from meanmax.study.report.figures.request import NothingToShow
from meanmax.study.report.figures.style import METHODS
from meanmax.study.report.why import FILE
from meanmax.study.store.exports import export_rows
from tests.study.rows import searched

from ..test_study import BASE, MIXED, REACH, UP, compared
from ..test_why import FACTS
from .drawn import draw, texts


def marks(axes, aggr):
    method = METHODS[aggr]
    return [
        (line.get_xdata()[0], line.get_ydata()[0], line.get_markerfacecolor())
        for line in axes.lines
        if line.get_marker() == method.marker and line.get_color() == method.colour
    ]


def test_each_task_has_a_mark_for_each_aggregator_and_filled_ones_are_significant():
    rows = compared("wine", {"lp": UP, "max": MIXED}) + compared("cancer", {"lp": MIXED})
    (axes,) = draw("tasks", Evidence(rows)).axes
    below, above = sorted(marks(axes, "lp"), key=lambda mark: mark[0])
    assert above[0] == pytest.approx(sum(UP) / 10) and above[2] == METHODS["lp"].colour
    assert below[0] == pytest.approx(sum(MIXED) / 10) and below[2] == "white"
    assert len(marks(axes, "max")) == 1
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["cancer, gcn, n = 10", "wine, gcn, n = 10"]
    lower, upper = axes.get_ylim()
    assert lower > upper, "the first task is on top"


def test_generated_tasks_and_other_units_are_left_out():
    rows = compared(REACH, {"lp": UP})
    rows += searched("none", BASE, metric="mae") + searched("lp", BASE, metric="mae")
    with pytest.raises(NothingToShow, match="meanmax compare --data digits"):
        draw("tasks", Evidence(rows))


def test_each_predictor_has_a_panel_with_honest_n(tmp_path):
    rows = compared("wine", {"lp": UP}) + compared("cancer", {"lp": MIXED})
    export_rows(rows, tmp_path / "rows.jsonl")
    other = dataclasses.replace(
        FACTS, data="cancer", data_hash="d-cancer", level="graph", homophily=None
    )
    lines = [json.dumps(dataclasses.asdict(facts)) for facts in (FACTS, other)]
    (tmp_path / FILE).write_text("\n".join(lines), encoding="utf-8")
    figure = draw("why", Evidence.of(tmp_path / "rows.jsonl"))
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "mean degree",
        "feature density",
        "label rate",
    ]
    text = texts(figure)
    assert "n = 2 data sets" in text and "nothing is claimed below 10" in text
    assert "labels of nodes" in text and "labels of graphs" in text
    drawn = {line.get_marker() for line in figure.axes[0].lines} & {"o", "s"}
    assert drawn == {"o", "s"}


def test_without_facts_there_is_nothing_to_show():
    with pytest.raises(NothingToShow, match=r"datasets.jsonl next to the rows"):
        draw("why", Evidence(compared("wine", {"lp": UP})))

"""Draws figures and reads back what was drawn."""

from matplotlib.text import Text

from meanmax.study.report.figures.request import FIGURES


def draw(name, evidence, request=None):
    return FIGURES[name].draw(evidence, request)


def texts(figure):
    return " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(Text))


def curve(axes, colour):
    lines = [line for line in axes.lines if line.get_color() == colour]
    return max(lines, key=lambda line: line.get_linewidth()).get_ydata()

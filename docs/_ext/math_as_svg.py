"""Formulas as SVG in the page, drawn at build time: the same in every browser, no JavaScript."""

import html
from functools import cache

import ziamath
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

EM = 16  # units of the drawings in one em, the size of the text around them

ziamath.config.svg2 = False  # every formula holds its own outlines: no ids that could clash
ziamath.config.precision = 2


@cache
def drawing(text: str, inline: bool) -> str:
    formula = ziamath.Latex(
        text.replace("<", r"\lt "), size=EM, inline=inline, color="currentColor"
    )
    svg = formula.svgxml()
    height = float(svg.get("height"))
    below = height + float(svg.get("viewBox").split()[1])
    svg.set("style", f"height:{height / EM:.3f}em;vertical-align:{-below / EM:.3f}em")
    svg.set("role", "img")
    svg.set("aria-label", html.escape(text))
    del svg.attrib["width"], svg.attrib["height"]
    return ziamath.zmath.ET.tostring(svg, encoding="unicode")


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(drawing(node.astext(), inline=True))
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    text = " ".join(node.astext().split())
    if (
        r"\\" in text and r"\begin" not in text
    ):  # several lines, as Sphinx's other renderers have it
        text = rf"\begin{{align*}}{text}\end{{align*}}"
    translator.body.append(f'<div class="formula">{drawing(text, inline=False)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("svg", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Conversion of shapes to SVG text, and the style sheet that they need, with explicit colors."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from xml.sax.saxutils import escape

from autograder.view.assets import read_asset
from autograder.view.shapes import Shape, box, shape, walk

STATIC = """
.ground{fill:var(--ag-card);stroke:var(--ag-rule)}.pane{fill:var(--ag-paper)}
.code{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:11px;white-space:pre}
.lit{fill:var(--ag-lit)}.pen{font-weight:700}.hit .pen,.failed .pen{fill:var(--ag-hit)}.unseen .pen,.lost .pen{fill:var(--ag-unseen)}
.named .pen{fill:var(--ag-saved)}
.keyword{fill:var(--ag-f3)}.string{fill:var(--ag-f2)}.number{fill:var(--ag-f0)}.comment{fill:var(--ag-soft)}
.banner{fill:var(--ag-leaf)}.bad .banner{fill:var(--ag-hit-field)}.silent .banner{fill:var(--ag-unseen-field)}
.pointer path{fill:none;stroke:var(--ag-hit);stroke-width:2}.pointer .tip{fill:var(--ag-hit);stroke:none}
.pointer.silent path{stroke:var(--ag-unseen)}.pointer.silent .tip{fill:var(--ag-unseen);stroke:none}
"""


def write_document(title: str, shapes: list[Shape], width: float, height: float) -> str:
    """Return the SVG document of some shapes on a framed ground, with a title for screen readers."""
    tree = shape(
        "svg", shape("title", title), shape("style", "{style}"),
        box(0.5, 0.5, width - 1, height - 1, 9, kind="ground"), *shapes,
        xmlns="http://www.w3.org/2000/svg", width=round(width), height=round(height), role="img",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )  # fmt: skip
    return write_svg(tree).replace("{style}", write_style(tree), 1)


def write_style(tree: Shape) -> str:
    """Return the CSS rules for the classes and tags of a drawing, in light colors and, in a media query, in dark ones."""
    used = {name for part in walk(tree) for name in (part[0], *str(part[1].get("class", "")).split())}
    light, dark = _rules()
    kept = [[rule for rule in rules if any(names <= used for names in _selectors(rule))] for rules in (light, dark)]
    return f"{''.join(kept[0])}@media(prefers-color-scheme:dark){{{''.join(rule for rule in kept[1] if '#' in rule)}}}"


@cache
def _selectors(rule: str) -> list[set[str]]:
    """Return the classes and tags in each of a rule's selectors."""
    return [set(re.findall(r"[\w-]+", selector)) for selector in rule.split("{")[0].split(",")]


@cache
def _rules() -> tuple[list[str], list[str]]:
    """Return graph.css's rules for drawings in light and in dark colors; the dark ones contain only colors."""
    whole = read_asset("graph.css")
    pairs = dict(re.findall(r"(--ag-[\w-]+): light-dark\((#\w+, #\w+)\)", whole))
    drawing = whole.split("/* drawing", 1)[1].split("*/", 1)[1].split("/* end of drawing", 1)[0] + STATIC
    small = re.sub(r"\s*([{};:,>])\s*", r"\1", re.sub(r"\s+", " ", drawing)).strip().replace(";}", "}")
    rules = re.findall(r"[^{}]+\{[^{}]*\}", small)
    colours = [{name: pair.split(", ")[i] for name, pair in pairs.items()} for i in (0, 1)]
    light, dark = ([_fill(rule, values) for rule in rules] for values in colours)
    return light, [re.sub(r"(?<=[{;])(?![^;}]*#)[^;}]*;?", "", rule).replace(";}", "}") for rule in dark]


def _fill(rules: str, colours: dict[str, str]) -> str:
    """Return the rules with each variable replaced with its color."""
    return re.sub(r"var\((--ag-[\w-]+)\)", lambda match: colours[match[1]], rules)


def write_svg(tree: Shape) -> str:
    """Return a shape as SVG text, with all text and attribute values escaped."""
    tag, attributes, *children = tree
    pairs = "".join(f" {name}={quote_value(value)}" for name, value in attributes.items())
    inside = (escape(replace_invalid(child)) if isinstance(child, str) else write_svg(child) for child in children)
    return f"<{tag}{pairs}>{''.join(inside)}</{tag}>" if children else f"<{tag}{pairs}/>"


@lru_cache(maxsize=10_000, typed=True)  # most values of a picture are repeated
def quote_value(value: object) -> str:
    """Return an attribute's value in single quotes, which need not be escaped in a data URL."""
    return "'" + escape(replace_invalid(str(value)), {"'": "&apos;"}) + "'"


def replace_invalid(words: str) -> str:
    """Return a text with U+FFFD in place of each character that is not allowed in XML 1.0."""
    if words.isprintable():
        return words
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", words)

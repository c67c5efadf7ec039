"""The code panel of the static picture: the lines around the running one and around every marked one."""

from __future__ import annotations

from autograder.locale.line_breaks import columns
from autograder.view.draw.static_frame import StaticFrame
from autograder.view.scene.code_tokens import CodeToken
from autograder.view.scene.composition import CodeLine, Scene, SceneFrame
from autograder.view.shapes import Shape, box, group, shape, text

LINE, PAD = 18.0, 8.0
"""Heights in pixels: a line of code, and the margin above the first and below the last."""

MOST_LINES = 16
"""The maximum number of lines that are shown of a longer program."""

NEAR = 3
"""The number of lines before and after the running one that are preferred to all others."""

MARKS = {"failed": "✗", "hit": "✎", "unseen": "✎", "lost": "✂", "named": "➜", "saved": "◦"}
"""State of a line → the mark next to it; of several states, the first one here is used."""


def panel_height(lines: int) -> float:
    """Return the height of a panel with this many lines, in pixels."""
    return LINE * max(lines, 1) + 2 * PAD


def draw_code(
    scene: Scene, static: StaticFrame, number: int, left: float, top: float, width: float
) -> tuple[Shape, dict[str, float]]:
    """Return the panel at a frame, counted from 0, and the middle of each shown line by the line's key; all in pixels."""
    frame = scene.frames[number]
    lines = _choose_lines(scene, static, frame)
    heights: dict[str, float] = {}
    shapes: list[Shape] = [box(left, top, width, panel_height(len(lines)), 7, kind="card")]
    before = None
    for row, (line_number, line) in enumerate(lines):
        y = top + PAD + LINE * row
        heights[line.key] = y + LINE / 2
        label = str(line_number) if before in (None, line_number - 1) else f"⋮ {line_number}"
        shapes += _draw_line(line, label, static.states.get(line.key, ""), line.key == frame.line, left, y, width)
        before = line_number
    return group(*shapes), heights


def _choose_lines(scene: Scene, static: StaticFrame, frame: SceneFrame) -> list[tuple[int, CodeLine]]:
    """Return the shown lines of the running program, each with its number, counted from 1."""
    files = [list(enumerate(program.lines, program.first)) for program in scene.programs] or [[]]
    lines = next((lines for lines in files if any(line.key == frame.line for _, line in lines)), files[0])
    if len(lines) <= MOST_LINES:
        return lines
    runs = next((number for number, line in lines if line.key == frame.line), 2)
    pointed = {key for _, key in frame.links}

    def rank(entry: tuple[int, CodeLine]) -> tuple[bool, bool, bool, int]:
        number, line = entry
        far = abs(number - runs)
        return line.key not in pointed, far > NEAR, line.key not in static.states, far

    return sorted(sorted(lines, key=rank)[:MOST_LINES], key=lambda entry: entry[0])


def _draw_line(
    line: CodeLine, label: str, state: str, runs: bool, left: float, top: float, width: float
) -> list[Shape]:
    """Return a line with its number and its mark; the running line has its own background and an arrow."""
    mark = next((sign for kind, sign in MARKS.items() if kind in state), "")
    if runs and mark in ("", "◦"):
        mark = "▸"
    row: list[Shape | None] = [
        box(left + 1, top, width - 2, LINE, kind="lit") if runs else None,
        text(left + 32, top + 13, label, kind="side"),
        text(left + 7, top + 13, mark, kind="pen") if mark else None,
        _draw_tokens(line.tokens, left + 40, top + 13, width - 48),
    ]
    shapes = [shape for shape in row if shape]
    return [group(*shapes, kind=f"line {state}")] if state else shapes


def _draw_tokens(tokens: list[CodeToken], x: float, y: float, width: float) -> Shape | None:
    """Return the text of a line in its colors, cut at the panel's edge; None for an empty line."""
    left, parts = int(width / 6.65), []
    for words, kind in tokens:
        if left <= 0:
            break
        cut = words if columns(words) <= left else words[: left - 1] + "…"
        parts.append(shape("tspan", cut, kind=kind) if kind else cut)
        left -= columns(words)
    return shape("text", *parts, x=x, y=y, kind="code") if parts else None

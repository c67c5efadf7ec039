"""The timeline as an HTML table, for saved notebooks and feedback: text that wraps, and a bar of borders.

JupyterLab's sanitizer (4.6) keeps tables, `details` and these inline styles; it removes `svg`, `style` and classes' rules
do not exist in a saved notebook. Colors of text are those of the page, so that the table is readable in every theme.
"""

from __future__ import annotations

from html import escape

from autograder.view.scene.timeline_parts import Column, Kind, Row, Timeline

GLYPHS: dict[Kind, str] = {
    "made": "▪", "shared": "↳", "saved": "○", "modified": "✎", "unseen": "✎", "lost": "✂", "raised": "✗",
    "accepted": "!", "fine": "✓",
}  # fmt: skip
BEFORE = "#1f7ad1"
AFTER = {"bad": "solid #d2500f", "silent": "dashed #b8479f", "fine": "solid #1f7ad1"}
"""Borders of the bar; each color has a contrast of at least 3:1 to white and to black."""
CELL = "text-align:left;vertical-align:top;padding:3px 6px;white-space:normal;overflow-wrap:break-word"
MONO = "font-family:monospace;white-space:pre-wrap"
LIT = "background-color:rgba(255,190,0,0.25)"


def write_table(timeline: Timeline) -> str:
    """Return the timeline as HTML without scripts, classes and ids; columns after the first are folded."""
    first, *others = timeline.columns
    folded = (
        f"<details><summary>{escape(column.heading)}</summary>{_table(column, timeline.tone)}</details>"
        for column in others
    )
    below = [timeline.change, *timeline.rest]
    names = ""
    if timeline.unmodified:
        names = f"<details><summary>{escape(below.pop())}</summary>{escape(', '.join(timeline.unmodified))}</details>"
    return "".join([
        f"<p><strong>{escape(timeline.title)}</strong></p>", _table(first, timeline.tone), *folded,
        *(f"<p>{escape(words)}</p>" for words in below if words), names,
    ])  # fmt: skip


def _table(column: Column, tone: str) -> str:
    """Return the rows of one column; from the cause on, the bar has the color of the verdict."""
    rows, is_after = [], False
    name = " · ".join(filter(None, (column.name, column.note)))
    if name:
        rows.append(_line("", "", f"<b>{escape(name)}</b>", ""))
    for row in column.rows:
        before = f"8px {AFTER[tone]}" if is_after else f"8px solid {BEFORE}"
        if row.fold:
            rows.append(_line("", escape(row.fold), "", before if column.name else ""))
        is_after = is_after or any(mark.kind in ("modified", "unseen", "lost") for mark in row.marks)
        bar = f"8px {AFTER[tone]}" if is_after else before
        rows.append(
            _line(escape(row.line), _code(row), _words(row), bar if column.name else "", LIT if row.is_lit else "")
        )
    return (
        '<table style="width:100%;max-width:960px;table-layout:fixed;border-collapse:collapse;margin-left:0">'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _line(number: str, code: str, words: str, bar: str, lit: str = "") -> str:
    """Return one row of the table; `bar` is the border to the left of the words."""
    border = f"border-left:{bar};" if bar else ""
    shade = f"{lit};" if lit else ""
    return (
        f'<tr><td style="{shade}width:44px;{CELL}">{number}</td><td style="{shade}width:42%;{CELL}">{code}</td>'
        f'<td style="{border}{CELL}">{words}</td></tr>'
    )


def _code(row: Row) -> str:
    """Return the code of a row, indented by its depth, with the remark on it."""
    remark = f"<br><small>{escape(row.remark)}</small>" if row.remark else ""
    return f'<code style="{MONO}">{"  " * min(row.depth, 4)}{escape(row.code)}</code>{remark}'


def _words(row: Row) -> str:
    """Return the marks of a row, each on a line."""
    lines = []
    for mark in row.marks:
        detail = f"<br><small>{escape(mark.detail)}</small>" if mark.detail else ""
        lines.append(f"{GLYPHS[mark.kind]} <b>{escape(mark.words)}</b>{detail}")
    return "<br>".join(lines)

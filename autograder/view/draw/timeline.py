"""The timeline as shapes (rows of code, one bar for each storage, the marks on it), and as an HTML table for saved notebooks.

JupyterLab's sanitizer (4.6) keeps tables, `details` and inline styles, and removes `svg` and `style`. Therefore the table has no
style sheet, and its text has the color of the page, which is readable in every theme.
"""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_right
from html import escape
from itertools import accumulate

from autograder.locale.line_breaks import wrap_text
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.view.draw.markup import write_document
from autograder.view.playback import list_frames
from autograder.view.scene.composition import Scene, build_scene
from autograder.view.scene.timeline import timeline_of
from autograder.view.scene.timeline_parts import Column, Kind, Mark, Row, SceneColumn, SceneTimeline, Timeline
from autograder.view.shapes import BOLD, MONO, Drawing, Shape, box, clip, group, path, shape, text
from autograder.view.text.naming import join_few

WIDE, NARROW = 880.0, 360.0
"""Widths of the two static forms in pixels; below 600 pixels the bar is to the left of the code, and the words are below it."""
LIVE_WIDTHS = (308.0, 360.0, 460.0, 620.0, 760.0, 880.0, 1080.0)
"""Widths of the drawings from which the front end chooses the largest one that fits into its pane."""
MOST_ROWS = 11  # the maximum number of rows of a static picture with several columns
SHORTEST = 8  # the minimum number of columns of the last line of a text, which otherwise wraps earlier
NOTE_END_CLASS = "note end"  # class of a note that ends at its position
PAD, ROW, CALLER, LINE, FOLD, INDENT = 16.0, 32.0, 25.0, 15.0, 21.0, 14.0
GLYPHS: dict[Kind, str] = {
    "made": "▪", "shared": "↳", "saved": "○", "modified": "✎", "unseen": "✎", "lost": "✂", "raised": "✗",
    "accepted": "!", "fine": "✓",
}  # fmt: skip
CHARACTER, TITLE, CODE = 6.4, 9.3, 6.95
"""Upper estimates of the width of one character of the notes, of the title and of the code, in pixels."""


def draw_timeline(timeline: Timeline, width: float = WIDE) -> str:
    """Return the SVG document of a timeline, `width` pixels wide, with as many columns as MOST_ROWS allows."""
    top, shapes = _lines(timeline.title, width, PAD, TITLE, "title", 21)
    shown = max(1, sum(rows <= MOST_ROWS for rows in accumulate(len(column.rows) for column in timeline.columns)))
    for column in timeline.columns[:shown]:
        drawing = _ColumnDrawing(column, width, top)
        shapes += drawing.shapes()
        top = drawing.top
    left = [column.heading for column in timeline.columns[shown:]]
    others = [translated("Also modified after they were saved: {names}.", names=join_few(left))] if left else []
    top += 6
    for words, kind in [(timeline.change, "fix"), *((words, "note") for words in (*others, *timeline.rest))]:
        if words:
            top, lines = _lines(words, width, top, CHARACTER, kind, LINE + 2)
            shapes += lines
    return write_document(timeline.title, [group(*shapes, kind=f"time {timeline.classes}")], width, top + 4)


def draw_column(column: Column, tone: str, width: float) -> Drawing:
    """Return one column as the front end draws it; each row is a group of class "moment", in the order of the rows."""
    drawing = _ColumnDrawing(column, width, 0)
    shapes = drawing.shapes()
    return Drawing(0, 0, width, drawing.top + 4, [group(*shapes, kind=f"time {tone}")])


def _lines(
    words: str, width: float, top: float, character: float, kind: str, height: float
) -> tuple[float, list[Shape]]:
    """Return the position below text that wraps at the right edge, and its lines."""
    lines = wrap_text(words, int((width - 2 * PAD) / character))
    if len(lines) > 1 and len(lines[-1]) < SHORTEST:
        lines = wrap_text(words, int((width - 2 * PAD) / character) - 2 * SHORTEST)
    shapes = [text(PAD, top + height * (number + 1) - 5, line, kind=kind) for number, line in enumerate(lines)]
    return top + height * len(lines), shapes


def _wrap_code(code: str, limit: int) -> list[str]:
    """Return code as at most two lines of `limit` columns, broken after a space, a comma, a bracket or a point."""
    if len(code) > limit:
        code = _without_comment(code)
    if len(code) <= limit:
        return [code]
    broken = max(code.rfind(sign, limit // 2, limit) + 1 for sign in " ,(.") or limit
    return [code[:broken].rstrip(), clip(code[broken:], limit - 2)]


def _without_comment(line: str) -> str:
    """Return a line of code without the comment at its end; a comment alone stays."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(line).readline):
            if token.type == tokenize.COMMENT and token.start[0] == 1:
                return line[: token.start[1]].rstrip() or line
    except (tokenize.TokenError, SyntaxError):  # a part of a statement
        pass
    return line


class _ColumnDrawing:
    """Places the rows of a column from `top` on."""

    def __init__(self, column: Column, width: float, top: float):
        self.column, self.width, self.is_narrow = column, width, width < 600
        self.code, self.bar = (76.0, 26.0) if self.is_narrow else (64.0, 0.52 * width)
        self.words = self.code if self.is_narrow else self.bar + 34
        self.top = top
        self.spots: list[tuple[float, Mark]] = []

    def shapes(self) -> list[Shape]:
        """Return all shapes: the lit lines, the bars and the arrow below the texts; `top` is below them then."""
        name = self._name() if self.column.name else []
        back: list[Shape] = []
        rows = [self._row(row, back) for row in self.column.rows]
        return [*back, *self._bars(), *self._arrow(), *name, *rows]

    def _name(self) -> list[Shape]:
        """Return the name and size of the storage, above the bar."""
        left = self.words if self.is_narrow else self.bar - 8
        limit = int((self.width - left - PAD) / MONO)
        top, self.top = self.top, self.top + 38
        name = text(left, top + 18, clip(self.column.name, limit), kind="code pen")
        return [name, text(left, top + 33, self.column.note, kind="note")]

    def _row(self, row: Row, back: list[Shape]) -> Shape:
        """Return one line of code with its marks, below the fold that precedes it; add its background to `back`."""
        shapes: list[Shape] = []
        if row.fold:
            shapes.append(text(self.code, self.top + 15, row.fold, kind="note"))
            self.top += FOLD
        code = self._code(row)
        begin, height = self.top, ROW + LINE * (len(code) - 1) if row.marks else CALLER
        if row.is_lit:
            right = self.width - PAD if self.is_narrow else self.bar - 22
            back.append(box(PAD - 6, begin + 3, right - PAD + 6, height - 8, 0, kind="lit"))
            back.append(box(PAD - 6, begin + 3, 3, height - 8, 0, kind="cause"))
        first = begin + (ROW if row.marks else CALLER) / 2 + 3
        number = clip(row.line, 14 if ":" in row.line else 6)
        shapes.append(text(self.code - 12, first, number, kind=NOTE_END_CLASS))
        for place, (words, remark) in enumerate(code):
            y, left = first + LINE * place, self._left(row) + INDENT * (place > 0)
            shapes += [text(left, y, words, kind="code")] if words else []
            shapes += [text(self._end, y, remark, kind=NOTE_END_CLASS)] if remark else []
        below = begin + height if self.is_narrow else begin
        for mark in row.marks:
            self.spots.append((begin + ROW / 2, mark))
            below = self._mark(mark, below, shapes)
            shapes += self._glyph(mark, begin + ROW / 2)
        self.top = max(begin + height, below + 4)
        field = box(PAD - 6, begin + 3, self.width - 2 * PAD + 12, self.top - begin - 6, 4, kind="around")
        return group(field, *shapes, kind="moment")

    @property
    def _end(self) -> float:
        """The right end of the code."""
        return self.width - PAD if self.is_narrow else self.bar - 28

    def _left(self, row: Row) -> float:
        """Return the left end of a row's code."""
        return self.code + INDENT * min(row.depth, 4)

    def _code(self, row: Row) -> list[tuple[str, str]]:
        """Return the lines of the code, each with a remark on its right: up to two for a row with marks, else one."""
        space = self._end - self._left(row) - 2
        limit = max(int(space / CODE), 8)
        if not row.marks:
            free = (space - CODE * len(row.code) - 8) / CHARACTER
            return [(clip(row.code, limit), row.remark if 0 < len(row.remark) < free else "")]
        lines = _wrap_code(row.code, limit)
        for remark in filter(None, dict.fromkeys((row.remark, row.remark.split(" · ")[-1]))):
            if CODE * (len(lines[-1]) + 3) + CHARACTER * len(remark) < space:
                return [*((line, "") for line in lines[:-1]), (lines[-1], remark)]
            if len(lines) == 1 and CHARACTER * len(remark) < space and row.is_repeated:
                return [(lines[0], ""), ("", remark)]
        return [(line, "") for line in lines]

    def _mark(self, mark: Mark, top: float, shapes: list[Shape]) -> float:
        """Add the words of a mark from `top` on. Return the position below them."""
        first = top + (-2 if self.is_narrow else ROW / 2 - 9)
        space = self.width - self.words - PAD
        for words, kind, width in ((mark.words, f"said {mark.kind}", BOLD), (mark.detail, "note", CHARACTER)):
            for line in wrap_text(words, int(0.96 * space / width)) if words else ():
                first += LINE - 1
                shapes.append(text(self.words, first - 2, line, kind=kind))
        return first + 2

    def _bars(self) -> list[Shape]:
        """Return the bar from the line that made the storage to the last mark, in the color of the verdict after the cause.

        A thin line next to it leads from the line that made an alias to the modification through this alias.
        """
        if not self.column.name or not self.spots:
            return []
        x, tops = self.bar, [middle for middle, _ in self.spots]
        begin = tops[0] if any(mark.kind == "made" for _, mark in self.spots) else tops[0] - ROW / 2 + 4
        causes = [middle for middle, mark in self.spots if mark.kind in ("modified", "unseen", "lost")]
        cause = min(causes, default=tops[-1])
        hidden = all(mark.kind != "modified" for _, mark in self.spots)
        pieces = [path(f"M{x:.1f} {begin:.1f}V{cause:.1f}", kind="bar")]
        if causes and tops[-1] > cause:
            pieces.append(path(f"M{x:.1f} {cause:.1f}V{tops[-1]:.1f}", kind="bar after" + " unseen" * hidden))
        shared = [middle for middle, mark in self.spots if mark.kind == "shared"]
        if shared and causes:
            pieces.append(path(f"M{x:.1f} {shared[0]:.1f}h-9V{max(causes[0], shared[0]):.1f}h9", kind="thread"))
        return pieces

    def _glyph(self, mark: Mark, y: float) -> list[Shape]:
        """Return the glyph of a mark on the bar: a ring, a pencil, or a disc with a sign."""
        x = self.bar
        if mark.kind == "saved":
            return [shape("circle", cx=x, cy=y, r=7.5, kind="ring")]
        if mark.kind in ("modified", "unseen"):
            return [path(f"M{x - 1:.1f} {y + 6:.1f}l2 -6l7 -11l5 3l-7 11z", kind="pencil")]
        if mark.kind in ("made", "shared"):
            return []
        return [shape("circle", cx=x, cy=y, r=10.0, kind="disc"), text(x, y + 4.5, GLYPHS[mark.kind], kind="sign")]

    def _arrow(self) -> list[Shape]:
        """Return the arrow along the bar, from the ring of the saved tensor to the backward call that reads it."""
        saved = [middle for middle, mark in self.spots if mark.is_read]
        read = [middle for middle, mark in self.spots if mark.kind in ("raised", "accepted", "fine")]
        if self.is_narrow or not saved or not read or read[-1] <= saved[0]:
            return []
        x, begin, end = self.bar + 11, saved[0], read[-1]
        far = x + 16
        curve = path(f"M{x - 2:.0f} {begin:.0f}C{far:.0f} {begin:.0f} {far:.0f} {end:.0f} {x + 6:.0f} {end:.0f}")
        tip = path(f"M{x + 9:.0f} {end - 4.5:.1f}L{x + 1:.0f} {end:.0f}L{x + 9:.0f} {end + 4.5:.1f}z", kind="tip")
        return [group(curve, tip, kind="reads")]


def live_scene(recording: Recording, place: str = "", *, is_playable: bool = False, graph_first: bool = False) -> Scene:
    """Return the scene of a recording with its timeline, for a live picture in the page element of class `place`.

    With `is_playable`, the kernel answers changes of the program; with `graph_first`, the graph is open below the
    timeline.
    """
    scene, timeline = build_scene(recording, place=place), timeline_of(recording)
    scene.is_playable = is_playable
    if timeline is not None:
        scene.timeline = scene_timeline(timeline, recording, scene, graph_first)
    return scene


def scene_timeline(timeline: Timeline, recording: Recording, scene: Scene, graph_first: bool = False) -> SceneTimeline:
    """Return the timeline of a recording for a front end; the scene may leave out frames of a long run."""
    numbers = [frame.number for frame in scene.frames]
    frame_of = {
        frame.step.index: bisect_right(numbers, frame.number) - 1
        for frame in list_frames(recording) if frame.step
    }  # fmt: skip
    columns = [
        SceneColumn(
            column.heading,
            [draw_column(column, timeline.tone, width) for width in LIVE_WIDTHS],
            [frame_of.get(row.step, -1) if row.step is not None else -1 for row in column.rows],
            [row.code if {mark.kind for mark in row.marks} & {"modified", "unseen"} else "" for row in column.rows],
        )
        for column in timeline.columns
    ]
    rest, names = list(timeline.rest), list(timeline.unmodified)
    return SceneTimeline(timeline.title, timeline.classes, columns, timeline.change, rest, names, graph_first)


BEFORE = "#1f7ad1"
AFTER = {"bad": "solid #d2500f", "silent": "dashed #b8479f", "fine": "solid #1f7ad1"}
"""Borders of the bar; each color has a contrast of at least 3:1 to white and to black."""
CELL = "text-align:left;vertical-align:top;padding:3px 6px;white-space:normal;overflow-wrap:break-word"
MONO_CELL = "font-family:monospace;white-space:pre-wrap"
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
    return f'<code style="{MONO_CELL}">{"  " * min(row.depth, 4)}{escape(row.code)}</code>{remark}'


def _words(row: Row) -> str:
    """Return the marks of a row, each on a line."""
    lines = []
    for mark in row.marks:
        detail = f"<br><small>{escape(mark.detail)}</small>" if mark.detail else ""
        lines.append(f"{GLYPHS[mark.kind]} <b>{escape(mark.words)}</b>{detail}")
    return "<br>".join(lines)

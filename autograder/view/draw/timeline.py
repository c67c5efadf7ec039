"""The timeline as an SVG document: rows of code, one bar for the storage, and the marks on it."""

from __future__ import annotations

from autograder.locale.line_breaks import wrap_text
from autograder.view.draw.markup import tone_of, write_style, write_svg
from autograder.view.scene.timeline import Kind, Mark, Row, Timeline
from autograder.view.shapes import BOLD, MONO, Shape, box, clip, group, path, shape, text

WIDE, NARROW = 880.0, 360.0
"""Widths of the two forms in pixels; below 600 pixels the bar is to the left of the code, and the words are below it."""

PAD, ROW, LINE, FOLD, INDENT = 16.0, 34.0, 15.0, 22.0, 14.0
SIGNS: dict[Kind, str] = {"raised": "✗", "accepted": "!", "fine": "✓"}
CHARACTER, TITLE = 6.4, 9.3
"""Upper estimates of the width of one character of the notes and of the title, in pixels."""


class _TimelineDrawing:
    """Places the rows of a timeline from top to bottom."""

    def __init__(self, timeline: Timeline, width: float):
        self.timeline, self.width, self.is_narrow = timeline, width, width < 600
        self.code, self.bar = (76.0, 26.0) if self.is_narrow else (64.0, 0.52 * width)
        self.words = self.code if self.is_narrow else self.bar + 34
        self.top = PAD
        self.front: list[Shape] = []
        self.back: list[Shape] = []
        self.spots: list[tuple[float, Mark]] = []

    def draw(self) -> str:
        """Return the document."""
        self._lines(self.timeline.title, PAD, TITLE, "title", 21)
        if self.timeline.name:
            self._name()
        for row in self.timeline.rows:
            self._row(row)
        self.top += 6
        for sentence in self.timeline.rest:
            self._lines(sentence, PAD, CHARACTER, "note", LINE + 2)
        bottom = self.top + 4
        tree = shape(
            "svg", shape("title", self.timeline.title), shape("style", "{style}"),
            box(0.5, 0.5, self.width - 1, bottom - 1, 9, kind="ground"),
            group(*self.back, *self._bars(), *self._arrow(), *self.front, kind=f"time {tone_of(self.timeline.outcome)}"),
            xmlns="http://www.w3.org/2000/svg", width=round(self.width), height=round(bottom), role="img",
            viewBox=f"0 0 {self.width:.0f} {bottom:.0f}",
        )  # fmt: skip
        return write_svg(tree).replace("{style}", write_style(tree), 1)

    def _lines(self, words: str, left: float, character: float, kind: str, height: float) -> None:
        """Add text that wraps at the right edge."""
        for line in wrap_text(words, int((self.width - left - PAD) / character)):
            self.top += height
            self.front.append(text(left, self.top - 5, line, kind=kind))

    def _name(self) -> None:
        """Add the name and size of the storage, above the bar."""
        left = self.words if self.is_narrow else self.bar - 8
        limit = int((self.width - left - PAD) / MONO)
        self.front.append(text(left, self.top + 18, clip(self.timeline.name, limit), kind="code pen"))
        self.front.append(text(left, self.top + 33, self.timeline.note, kind="note"))
        self.top += 38

    def _row(self, row: Row) -> None:
        """Add one line of code with its marks, below the fold that precedes it."""
        if row.fold:
            self.front.append(text(self.code, self.top + 15, row.fold, kind="note"))
            self.top += FOLD
        begin = self.top
        middle = begin + ROW / 2
        if row.is_lit:
            right = self.width - PAD if self.is_narrow else self.bar - 22
            self.back.append(box(PAD - 6, begin + 3, right - PAD + 6, ROW - 8, 0, kind="lit"))
            self.back.append(box(PAD - 6, begin + 3, 3, ROW - 8, 0, kind="cause"))
        left = self.code + INDENT * min(row.depth, 4)
        end = self.width - PAD if self.is_narrow else self.bar - 30
        free = (end - left - 6.8 * len(row.code)) / CHARACTER
        remark = next((words for words in (row.remark, *reversed(row.remark.split(" · "))) if len(words) < free), "")
        remark = "" if self.is_narrow else remark
        end -= CHARACTER * len(remark)
        line = clip(row.line, 14 if ":" in row.line else 6)
        self.front.append(text(self.code - 12, middle + 3, line, kind="soft note", **{"text-anchor": "end"}))
        self.front.append(text(left, middle + 3, clip(row.code, max(int((end - left) / 6.8), 8)), kind="code"))
        if remark:
            self.front.append(text(self.bar - 28, middle + 3, remark, kind="soft note", **{"text-anchor": "end"}))
        below = begin + ROW if self.is_narrow else begin
        for mark in row.marks:
            self.spots.append((middle, mark))
            below = self._mark(mark, below)
        self.top = max(begin + ROW, below + 4)

    def _mark(self, mark: Mark, top: float) -> float:
        """Add the words of a mark from `top` on. Return the position below them."""
        first = top + (-2 if self.is_narrow else ROW / 2 - 9)
        space = self.width - self.words - PAD
        for words, kind, width in ((mark.words, f"said {mark.kind}", BOLD), (mark.detail, "note", CHARACTER)):
            for line in wrap_text(words, int(space / width)) if words else ():
                first += LINE - 1
                self.front.append(text(self.words, first - 2, line, kind=kind))
        return first + 2

    def _bars(self) -> list[Shape]:
        """Return the bar from the line that made the storage to the last mark, in the color of the verdict after the cause."""
        if not self.timeline.name or not self.spots:
            return []
        tops = [middle for middle, _ in self.spots]
        begin = tops[0] if any(mark.kind == "made" for _, mark in self.spots) else tops[0] - ROW / 2
        causes = [middle for middle, mark in self.spots if mark.kind in ("modified", "unseen")]
        cause = min(causes, default=tops[-1])
        is_unseen = any(mark.kind == "unseen" for _, mark in self.spots)
        pieces = [path(f"M{self.bar:.1f} {begin:.1f}V{cause:.1f}", kind="bar")]
        if causes and tops[-1] > cause:
            pieces.append(path(f"M{self.bar:.1f} {cause:.1f}V{tops[-1]:.1f}", kind="bar after" + " unseen" * is_unseen))
        return [*pieces, *(shape for middle, mark in self.spots for shape in self._glyph(mark, middle))]

    def _glyph(self, mark: Mark, y: float) -> list[Shape]:
        """Return the glyph of a mark on the bar: a ring, a pencil, or a disc with a sign."""
        x = self.bar
        if mark.kind == "saved":
            return [shape("circle", cx=x, cy=y, r=7.5, kind="kept")]
        if mark.kind in ("modified", "unseen"):
            pencil = path("M0 4L2 -2L9 -13L14 -10L7 1z", kind="pencil")
            return [group(pencil, transform=f"translate({x - 1:.1f} {y + 2:.1f})")]
        if mark.kind in SIGNS:
            sign = text(x, y + 4.5, SIGNS[mark.kind], kind="sign", **{"text-anchor": "middle"})
            return [shape("circle", cx=x, cy=y, r=10.0, kind="disc"), sign]
        return []

    def _arrow(self) -> list[Shape]:
        """Return the arrow along the bar, from the ring of the saved tensor to the backward call that reads it."""
        saved = [middle for middle, mark in self.spots if mark.is_read]
        read = [middle for middle, mark in self.spots if mark.kind in SIGNS]
        if self.is_narrow or not saved or not read or read[-1] <= saved[0]:
            return []
        x, begin, end = self.bar + 11, saved[0], read[-1]
        far = x + 16
        curve = path(f"M{x - 2:.0f} {begin:.0f}C{far:.0f} {begin:.0f} {far:.0f} {end:.0f} {x + 6:.0f} {end:.0f}")
        tip = path(f"M{x + 9:.0f} {end - 4.5:.1f}L{x + 1:.0f} {end:.0f}L{x + 9:.0f} {end + 4.5:.1f}z", kind="tip")
        return [group(curve, tip, kind="reads")]


def draw_timeline(timeline: Timeline, width: float = WIDE) -> str:
    """Return the SVG document of a timeline, `width` pixels wide."""
    return _TimelineDrawing(timeline, width).draw()

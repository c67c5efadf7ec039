"""The static picture: code, memory, graph and gradients at one frame, as a self-contained SVG document.

It contains the widget's shapes in their states at that frame. Colors are explicit because the picture may be shown
without a style sheet, theme or CSS variables; a media query selects dark colors if the reader's system prefers them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autograder.locale.line_breaks import columns, wrap_text
from autograder.locale.translations import join_sentences, translated
from autograder.tape.recording.schema import Recording
from autograder.view.draw.markup import write_document
from autograder.view.draw.timeline import draw_timeline
from autograder.view.scene import memory_lanes
from autograder.view.scene.board import CodeToken
from autograder.view.scene.composition import CodeLine, Scene, SceneFrame, build_scene
from autograder.view.scene.timeline import timeline_of
from autograder.view.shapes import Drawing, Shape, box, group, path, shape, text, tone_of

SHOWN_IN = {"field": {"stale", "silent"}, "tick": {"passed"}, "cross": {"raised", "wrong"}}
"""Class of a shape → the states of the enclosing part in which the shape is visible."""


@dataclass
class StaticFrame:
    """The state of every key at one frame, and the keys that the frame highlights."""

    states: dict[str, str]
    now: set[str]

    def render(self, tree: Shape) -> Shape | None:
        """Return a shape in its state, without hidden or empty parts; None if it becomes empty."""
        tag, attributes, *children = tree
        key = attributes.get("k")
        if key is not None and key not in self.states:
            # a block that is still to come: its outline and its title
            parts = (child for child in children if is_kind(child, "card") or is_kind(child, "title"))
            return group(*parts, kind="ghost") if is_kind(tree, "block") else None
        kept = {name: value for name, value in attributes.items() if name not in ("k", "s", "opens")}
        if tag == "text" and key is not None:
            children = [self.states[key]]
        elif key is not None:
            state = self.states[key].replace("on", "", 1).strip()
            kept["class"] = " ".join(filter(None, [kept.get("class"), state, "now" if key in self.now else ""]))
        elif tag == "g" and any(isinstance(c, list) and c[1].get("k") in self.now for c in children):
            kept["class"] = f"{kept.get('class', '')} now"
        around = set(str(kept.get("class", "")).split())
        hidden = [kind for kind, states in SHOWN_IN.items() if not states & around]
        children = [child for child in children if not any(is_kind(child, kind) for kind in hidden)]
        shown = [child if isinstance(child, str) else self.render(child) for child in children]
        shown = [child for child in shown if child]
        return [tag, kept, *shown] if shown or tag not in ("g", "text") else None


def static_state(scene: Scene, number: int) -> StaticFrame:
    """Return the state of every key at a frame, counted from 0."""
    states: dict[str, str] = {}
    for frame in scene.frames[: number + 1]:
        states |= frame.changes
    if scene.counters is not None:
        states |= {key: words for key, words in scene.counters.hidden.items() if key in states}
    return StaticFrame(states, set(scene.frames[number].now))


def is_kind(tree: Shape | str, kind: str) -> bool:
    """Return whether a shape's first class is `kind`."""
    return isinstance(tree, list) and tree[1].get("class", "").split(" ")[0] == kind


MAX_WIDTH, MAX_HEIGHT = 720.0, 520.0  # the maximum size of the shown part of the graph, in pixels


def draw_viewport(
    view: Drawing, static: StaticFrame, left: float, top: float
) -> tuple[Shape, float, float, dict[str, tuple[float, float]]]:
    """Return the shown part of the graph, with its upper left corner at (left, top), its width and height, and its anchors.

    An anchor is the point at which the arrow from a visible saved tensor to its line leaves the graph, by the tensor's key.
    """
    blocks = {tree[1]["k"]: tree[2][1] for tree in view.shapes if is_kind(tree, "block") and "k" in tree[1]}
    exits = {tree[1]["k"]: _spots(tree[2][1]["d"], 1)[-1] for tree in view.shapes if is_kind(tree, "exit")}
    rows = {row[1]["k"]: row[2][1] for block in view.shapes for row in block[2:] if is_kind(row, "kept")}
    focus = [rows[key] for key in rows if key in static.now] or [blocks[key] for key in blocks if key in static.now]
    spot = focus[-1] if focus else {"x": 0.0, "y": view.height}
    x, width = _crop(view.left, view.width, spot["x"], MAX_WIDTH)
    y, height = _crop(view.top, view.height, spot["y"], MAX_HEIGHT)
    shapes = [shown for tree in view.shapes if (shown := static.render(tree))]
    inside = [tree for tree in shapes if _overlaps(tree, 0, x, x + width) and _overlaps(tree, 1, y, y + height)]
    field = shape(
        "svg", *inside, x=left, y=top, width=width, height=height, viewBox=f"{x:g} {y:.0f} {width:.0f} {height:.0f}"
    )
    anchors = {key: (left, top + end - y) for key, end in exits.items() if 0 < end - y < height}
    return group(box(left, top, width, height, 7, kind="pane"), field), width, height, anchors


def _crop(start: float, length: float, focus: float, most: float) -> tuple[float, float]:
    """Return the start and the length of the shown part of an axis: at most `most` pixels, around `focus`."""
    if length <= most:
        return start, length
    return max(start, min(focus - most / 2, start + length - most)), most


def _overlaps(tree: Shape, axis: int, start: float, end: float) -> bool:
    """Return whether a shape extends into a part of an axis (0 horizontal, 1 vertical)."""
    tag, attributes, *children = tree
    if tag == "g":
        return any(_overlaps(child, axis, start, end) for child in children if isinstance(child, list))
    if tag == "path":
        spots = _spots(attributes["d"], axis)
        return min(spots) < end and max(spots) > start
    size = attributes.get(("width", "height")[axis], 0)
    spot = attributes.get("xy"[axis], attributes.get(("cx", "cy")[axis]))
    return spot is not None and start < spot + size and spot < end


def _spots(route: str, axis: int) -> list[float]:
    """Return the coordinates of a path on an axis (0 horizontal, 1 vertical), up to its first relative command."""
    return [float(number) for number in re.findall(r"-?[\d.]+", route.split("v")[0])[axis::2]]


CODE_LINE, CODE_PAD = 18.0, 8.0  # heights in pixels: a line of code, and the margin above the first and below the last
MOST_LINES = 16  # the maximum number of lines that are shown of a longer program
NEAR = 3  # the number of lines before and after the running one that are preferred to all others

MARKS = {"failed": "✗", "hit": "✎", "unseen": "✎", "lost": "✂", "named": "➜", "saved": "◦"}
"""State of a line → the mark next to it; of several states, the first one here is used."""


def panel_height(lines: int) -> float:
    """Return the height of a panel with this many lines, in pixels."""
    return CODE_LINE * max(lines, 1) + 2 * CODE_PAD


def draw_code(scene: Scene, static: StaticFrame, number: int, top: float) -> tuple[Shape, dict[str, float]]:
    """Return the panel of the left column at a frame, counted from 0, and the middle of each shown line by its key; all in pixels."""
    frame = scene.frames[number]
    lines = _choose_lines(scene, static, frame)
    heights: dict[str, float] = {}
    shapes: list[Shape] = [box(PAD, top, LEFT, panel_height(len(lines)), 7, kind="card")]
    before = None
    for row, (line_number, line) in enumerate(lines):
        y = top + CODE_PAD + CODE_LINE * row
        heights[line.key] = y + CODE_LINE / 2
        label = str(line_number) if before in (None, line_number - 1) else f"⋮ {line_number}"
        shapes += _draw_line(line, label, static.states.get(line.key, ""), line.key == frame.line, y)
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


def _draw_line(line: CodeLine, label: str, state: str, runs: bool, top: float) -> list[Shape]:
    """Return a line with its number and its mark; the running line has its own background and an arrow."""
    mark = next((sign for kind, sign in MARKS.items() if kind in state), "")
    if runs and mark in ("", "◦"):
        mark = "▸"
    row: list[Shape | None] = [
        box(PAD + 1, top, LEFT - 2, CODE_LINE, kind="lit") if runs else None,
        text(PAD + 32, top + 13, label, kind="side"),
        text(PAD + 7, top + 13, mark, kind="pen") if mark else None,
        _draw_tokens(line.tokens, PAD + 40, top + 13, LEFT - 48),
    ]
    shapes = [shape for shape in row if shape]
    return [group(*shapes, kind=f"line {state}")] if state else shapes


def _draw_tokens(tokens: list[CodeToken], x: float, y: float, width: float) -> Shape | None:
    """Return the text of a line in its colors, cut at the panel's edge; None for an empty line."""
    room, parts = int(width / 6.65), []
    for words, kind in tokens:
        if room <= 0:
            break
        cut = words if columns(words) <= room else words[: room - 1] + "…"
        parts.append(shape("tspan", cut, kind=kind) if kind else cut)
        room -= columns(words)
    return shape("text", *parts, x=x, y=y, kind="code") if parts else None


PAD, GUTTER, LEFT = 16.0, 24.0, 380.0  # pixels: margin, space between the two columns, width of the left one
MOST_LANES = 5  # the maximum number of storages: first those with a harm, then those of the frame, then the latest

SIGNS = {"correct": "✓", "raises-forward": "!", "raises-backward": "!", "silently-wrong": "⚠"}


def as_svg(recording: Recording, step: int | None = None) -> str:
    """Return the timeline, or the graph at one step, as an SVG document.

    Args:
        recording: the recording to draw.
        step: the step's number as the widget shows it, from 1; of one that a long run leaves out, the step before it.
            None for the timeline; without a timeline, the graph is that of the decisive step.

    Raises:
        ValueError: the recording does not contain this step.
    """
    timeline = timeline_of(recording) if step is None else None
    if timeline is not None:
        return draw_timeline(timeline)
    scene = build_scene(recording)
    last = scene.frames[-1].number
    if step is not None and not 1 <= step <= last:
        raise ValueError(f"This recording has the steps 1 to {last}; you asked for step {step}.")
    before = scene.decisive if step is None else sum(frame.number <= step for frame in scene.frames) - 1
    return draw_picture(scene, before)


def draw_picture(scene: Scene, number: int, verdict: bool = True) -> str:
    """Return the SVG document of a frame, counted from 0; without `verdict`, the outcome and the gradients are hidden."""
    static, frame = static_state(scene, number), scene.frames[number]
    top = 52.0 if verdict else PAD
    code, lines = draw_code(scene, static, number, top)
    lanes, left_end = _memory(scene, static, top + panel_height(len(lines)) + 14)
    graph, shown_width, height, anchors = draw_viewport(scene.views[0], static, LEFT + PAD + GUTTER, top)
    arrows = [_arrow(lines.get(line), anchors.get(edge), static.states.get(edge, "")) for edge, line in frame.links]
    width = LEFT + 2 * PAD + GUTTER + max(shown_width, 200)
    bottom = max(left_end, top + height) + 14
    words = wrap_text(_words(scene, number, verdict), int((width - 60) / 6.3))
    field = box(PAD, bottom, width - 2 * PAD, 14 + CODE_LINE * len(words), 7, kind="card")
    shapes = [code, *lanes, graph, *arrows, field]
    shapes += [text(PAD + 12, bottom + 20 + CODE_LINE * i, line) for i, line in enumerate(words)]
    bottom += 22 + CODE_LINE * len(words)
    if verdict and (panel := scene.gradients):
        rows = [tree for shape in panel.shapes if (tree := static.render(shape))]
        card = box(0.5, 0.5, panel.width - 1, panel.height - 1, 7, kind="card")
        shapes.append(group(card, *rows, transform=f"translate({PAD:g} {bottom + 6:g})"))
        width, bottom = max(width, panel.width + 2 * PAD), bottom + 14 + panel.height
    if verdict:
        shapes.insert(0, _banner(scene, width))
    title = scene.title if verdict else translated("What will this program do?")
    return write_document(title, shapes, width, bottom + PAD)


def _words(scene: Scene, number: int, verdict: bool) -> str:
    """Return the sentences of a frame, without versions if the reader sets them."""
    frame = scene.frames[number]
    if scene.counters is not None and number < len(scene.counters.facts):
        return scene.counters.facts[number]
    return join_sentences([frame.fact, frame.meaning, frame.effect if verdict else ""])


def _banner(scene: Scene, width: float) -> Shape:
    """Return the outcome as a banner across the whole width."""
    kind = "bad" if scene.is_refused else tone_of(scene.outcome)
    sign = "✗" if scene.is_refused else SIGNS[scene.outcome]
    return group(
        box(PAD, PAD, width - 2 * PAD, 26, 6, kind="banner"),
        text(PAD + 10, PAD + 17.5, f"{sign}  {scene.title}", kind="title"),
        kind=kind,
    )


def _memory(scene: Scene, static: StaticFrame, top: float) -> tuple[list[Shape], float]:
    """Return the lanes of this frame, one below the other, and the position of their lower end."""
    lanes = [*scene.memory.shapes, *(scene.others.shapes if scene.others else [])]
    drawn = [(lane, shown) for lane in lanes if (shown := static.render(lane))]
    harmed = [pair for pair in drawn if "hit" in pair[1][1]["class"] or "unseen" in pair[1][1]["class"]]
    current = [pair for pair in drawn if pair[0][1]["k"] in static.now]
    chosen = {id(pair[0]) for pair in [*harmed, *current, *reversed(drawn)][: MOST_LANES + len(harmed)]}
    shapes: list[Shape] = []
    for lane, shown in drawn:
        if id(lane) in chosen and len(shapes) < MOST_LANES:
            card = lane[2][1]
            shapes.append(group(shown, transform=f"translate({PAD:g} {top - card['y']:g})"))
            top += card["height"] + memory_lanes.GAP
    return shapes, top


def _arrow(line: float | None, row: tuple[float, float] | None, state: str) -> Shape:
    """Return the arrow from the row of a modified saved tensor to the middle of the line that modified it."""
    if line is None or row is None:
        return group()
    start, middle, (x, y) = PAD + LEFT, PAD + LEFT + GUTTER / 2, row
    return group(
        path(f"M{x:.0f} {y:.0f}L{middle:.0f} {y:.0f}L{middle:.0f} {line:.0f}L{start + 6:.0f} {line:.0f}"),
        path(f"M{start + 8:.0f} {line - 5:.0f}L{start - 1:.0f} {line:.0f}L{start + 8:.0f} {line + 5:.0f}z", kind="tip"),
        kind="pointer silent" if "silent" in state else "pointer",
    )

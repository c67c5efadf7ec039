"""The static picture: code, memory, graph and gradients at one frame, as an SVG that needs nothing else.

The same shapes as the widget's, in the states they have at that frame. Colours are written out, since a picture may be shown
where no style sheet, theme or CSS variable reaches; dark colours apply where the reader's system asks for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from autograder.errors import InputError
from autograder.tape.recording.schema import Recording
from autograder.view.draw.markup import markup, style
from autograder.view.scene import memory_lanes
from autograder.view.scene.composition import Scene, build
from autograder.view.shapes import Drawing, Shape, box, columns, group, path, shape, text, wrap

PAD, GUTTER, LINE = 16.0, 24.0, 18.0
LEFT = float(memory_lanes.WIDTH)
WIDEST, TALLEST = 720.0, 520.0
"""Pixels of the graph that are shown; of a larger one, the part around the frame's own blocks."""

MOST_LINES, MOST_PIECES = 16, 5
SHOWN_IN = {"field": {"stale", "silent"}, "tick": {"passed"}, "cross": {"raised", "wrong"}}
PENS = {"failed": "✗", "hit": "✎", "unseen": "✎", "saved": "◦"}
SIGNS = {"correct": "✓", "raises-forward": "✗", "raises-backward": "✗", "silently-wrong": "⚠"}


def as_svg(recording: Recording, step: int | None = None) -> str:
    """Returns the picture of one frame as a whole SVG document.

    Args:
        step: the frame's number as the widget counts them, from 1; None for the one that shows the point.

    Raises:
        ValueError: there is no such frame.
    """
    scene = build(recording)
    if step is not None and not 1 <= step <= len(scene.moments):
        raise InputError(f"This recording has the steps 1 to {len(scene.moments)}; you asked for step {step}.")
    return draw(scene, scene.telling if step is None else step - 1)


@dataclass
class Still:
    """One frame of a scene: the state of every key, the keys it points out."""

    states: dict[str, str]
    now: set[str]

    def shown(self, tree: Shape) -> Shape | None:
        """Returns a shape in its state, without what is hidden or empty; None where nothing is left."""
        tag, attributes, *children = tree
        key = attributes.get("k")
        if key is not None and key not in self.states and key != "end":
            return None
        kept = {name: value for name, value in attributes.items() if name not in ("k", "s", "opens")}
        if tag == "text" and key is not None:
            children = [self.states[key]]
        elif key is not None:
            state = self.states.get(key, "").replace("on", "", 1).strip()
            kept["class"] = " ".join(filter(None, [kept.get("class"), state, "now" if key in self.now else ""]))
        elif tag == "g" and any(isinstance(c, list) and c[1].get("k") in self.now for c in children):
            kept["class"] = f"{kept.get('class', '')} now"
        around = set(str(kept.get("class", "")).split())
        children = [child for child in children if not _idle(child, around)]
        shown = [child if isinstance(child, str) else self.shown(child) for child in children]
        shown = [child for child in shown if child]
        return [tag, kept, *shown] if shown or tag not in ("g", "text") else None


def _idle(child: Any, around: set[str]) -> bool:
    """Returns whether a shape shows nothing in a picture that stands still: a mark not given, a field to be hovered."""
    return any(_is(child, kind) and not states & around for kind, states in SHOWN_IN.items())


def freeze(scene: Scene, frame: int) -> Still:
    """Returns the state of every key at a frame, counted from 0."""
    states: dict[str, str] = {}
    for moment in scene.moments[: frame + 1]:
        states |= moment.changes
    return Still(states, set(scene.moments[frame].now))


def draw(scene: Scene, frame: int, verdict: bool = True) -> str:
    """Returns the whole document; without `verdict` it keeps the outcome and the gradients to itself."""
    still, moment = freeze(scene, frame), scene.moments[frame]
    top = 52.0 if verdict else PAD
    code, rows = _code(scene, still, frame, top)
    left_end = top + code_height(rows) + 14
    pieces, left_end = _memory(scene, still, moment.now, left_end)
    graph = _graph(scene.views[0], still, LEFT + PAD + GUTTER, top)
    links = [
        _pointer(rows.get(line), graph.anchors.get(edge), still.states.get(edge, "")) for edge, line in moment.links
    ]
    width = LEFT + 2 * PAD + GUTTER + max(graph.width, 200)
    bottom = max(left_end, top + graph.height) + 14
    said = wrap(" ".join(filter(None, [moment.fact, moment.effect if verdict else ""])), int((width - 60) / 6.3))
    shapes = [code, *pieces, graph.shape, *links, *_sentence(said, bottom, width)]
    bottom += 22 + LINE * len(said)
    if verdict and scene.gradients:
        shapes.append(_panel(scene.gradients, still, bottom + 6))
        width, bottom = max(width, scene.gradients.width + 2 * PAD), bottom + 14 + scene.gradients.height
    if verdict:
        shapes.insert(0, _banner(scene, width))
    return _document(scene, shapes, width, bottom + PAD, verdict)


def _banner(scene: Scene, width: float) -> Shape:
    """Returns the outcome, over the whole width."""
    kind = {"correct": "fine", "silently-wrong": "sly"}.get(scene.outcome, "bad")
    return group(
        box(PAD, PAD, width - 2 * PAD, 26, 6, kind="banner"),
        text(PAD + 10, PAD + 17.5, f"{SIGNS[scene.outcome]}  {scene.outcome}: {scene.headline}", kind="title"),
        kind=kind,
    )


def code_height(rows: dict[str, float]) -> float:
    """Returns the height of the code panel in pixels, with its margins."""
    return LINE * max(len(rows), 1) + 16


def _window(scene: Scene, still: Still, frame: int) -> list[tuple[int, int]]:
    """Returns (program, 0-based line) of the code lines that are shown: near the lit line and every marked one."""
    moment = scene.moments[frame]
    program, lit = map(int, moment.line[1:].split(".")) if moment.line else (0, 1)
    total = len(scene.programs[program]) if scene.programs else 0
    if total <= MOST_LINES:
        return [(program, i) for i in range(total)]
    marked = {int(key.split(".")[1]) - 1 for key in still.states if key.startswith(f"l{program}.")}
    pointed = {int(line.split(".")[1]) - 1 for _, line in moment.links if line.startswith(f"l{program}.")}
    far = {i: abs(i - lit + 1) for i in range(total)}
    near = sorted(far, key=lambda i: (i not in pointed, far[i] > 3, i not in marked, far[i]))
    return [(program, i) for i in sorted(near[:MOST_LINES])]


def _code(scene: Scene, still: Still, frame: int, top: float) -> tuple[Shape, dict[str, float]]:
    """Returns the code panel, and for each shown line's key the height at which it stands."""
    lines = _window(scene, still, frame)
    rows: dict[str, float] = {}
    shapes: list[Shape] = [box(PAD, top, LEFT, code_height(dict.fromkeys(map(str, lines), 0.0)), 7, kind="card")]
    before = None
    for number, (program, i) in enumerate(lines):
        y = top + 8 + LINE * number
        key = f"l{program}.{i + 1}"
        rows[key] = y + LINE / 2
        kinds = still.states.get(key, "")
        lit = key == scene.moments[frame].line
        mark = next((sign for kind, sign in PENS.items() if kind in kinds), "")
        row: list[Shape | None] = [
            box(PAD + 1, y, LEFT - 2, LINE, kind="lit") if lit else None,
            text(PAD + 32, y + 13, str(i + 1) if before is None or i == before + 1 else f"⋮ {i + 1}", kind="side"),
            text(PAD + 7, y + 13, mark if mark and not (lit and mark == "◦") else "▸", kind="pen")
            if mark or lit
            else None,
            _line(scene.programs[program][i], PAD + 40, y + 13),
        ]
        drawn = [shape for shape in row if shape]
        shapes += [group(*drawn, kind=f"line {kinds}")] if kinds else drawn
        before = i
    return group(*shapes), rows


def _line(runs: list[tuple[str, str]], x: float, y: float) -> Shape | None:
    """Returns one line of code in its colours, cut at the panel's edge."""
    left, parts = int((LEFT - 48) / 6.65), []
    for words, kind in runs:
        if left <= 0:
            break
        cut = words if columns(words) <= left else words[: left - 1] + "…"
        parts.append(shape("tspan", cut, kind=kind) if kind else cut)
        left -= columns(words)
    return shape("text", *parts, x=x, y=y, kind="code") if parts else None


def _memory(scene: Scene, still: Still, now: list[str], top: float) -> tuple[list[Shape], float]:
    """Returns the pieces of memory that this frame is about, and where they end."""
    drawn = [(piece, shown) for piece in scene.memory.shapes if (shown := still.shown(piece))]
    hurt = [pair for pair in drawn if "hit" in pair[1][1]["class"] or "unseen" in pair[1][1]["class"]]
    touched = [pair for pair in drawn if pair[0][1]["k"] in now]
    chosen = {id(pair[0]) for pair in [*hurt, *touched, *reversed(drawn)][: MOST_PIECES + len(hurt)]}
    shapes: list[Shape] = []
    for piece, shown in drawn:
        if id(piece) in chosen and len(shapes) < MOST_PIECES:
            card = piece[2][1]
            shapes.append(group(shown, transform=f"translate({PAD:g} {top - card['y']:g})"))
            top += card["height"] + memory_lanes.GAP
    return shapes, top


@dataclass
class Window:
    """The graph as a frame shows it: shapes, the part of the field that is in sight, and where the saved tensors' rows are.

    Attributes:
        anchors: saved edge's key → its row's left end, in the whole picture's coordinates.
    """

    shape: Shape
    width: float
    height: float
    anchors: dict[str, tuple[float, float]]


def _graph(view: Drawing, still: Still, left: float, top: float) -> Window:
    """Returns the graph at (left, top); of a large one, the part around the blocks that the frame is about."""
    rows = {row[1]["k"]: row[2][1] for block in view.shapes for row in block[2:] if _is(row, "kept")}
    shapes = [shown for tree in view.shapes if (shown := still.shown(tree))]
    blocks = {
        tree[1]["k"]: tree[2][1] for tree in view.shapes if _is(tree, "block") and tree[1].get("k") in still.states
    }
    ends = [(card["x"] + card["width"], card["y"] + card["height"]) for card in blocks.values()] or [(150.0, 40.0)]
    wide, tall = (max(end[axis] for end in ends) - 2 * start for axis, start in enumerate((view.left, view.top)))
    focus = [rows[key] for key in rows if key in still.now] or [blocks[key] for key in blocks if key in still.now]
    spot = focus[-1] if focus else {"x": 0.0, "y": tall}
    x, width = _part(view.left, wide, spot["x"], WIDEST)
    y, height = _part(view.top, tall, spot["y"], TALLEST)
    seen = [tree for tree in shapes if _meets(tree, 0, x, x + width) and _meets(tree, 1, y, y + height)]
    field = shape(
        "svg", *seen, x=left, y=top, width=width, height=height, viewBox=f"{x:g} {y:.0f} {width:.0f} {height:.0f}"
    )
    anchors = {key: (left + row["x"] - x, top + row["y"] - y + 8) for key, row in rows.items()}
    inside = {k: (a, b) for k, (a, b) in anchors.items() if left < a < left + width and top < b < top + height}
    return Window(group(box(left, top, width, height, 7, kind="pane"), field), width, height, inside)


def _part(start: float, length: float, focus: float, most: float) -> tuple[float, float]:
    """Returns where to begin, and how much to show, of a length of which at most `most` has room."""
    if length <= most:
        return start, length
    return max(start, min(focus - most / 2, start + length - most)), most


def _is(tree: Shape | str, kind: str) -> bool:
    """Returns whether a shape is of a kind."""
    return isinstance(tree, list) and tree[1].get("class", "").split(" ")[0] == kind


def _meets(tree: Shape, axis: int, start: float, end: float) -> bool:
    """Returns whether a shape reaches into a stretch of an axis (0 across, 1 down)."""
    tag, attributes, *children = tree
    if tag == "g":
        return any(_meets(child, axis, start, end) for child in children if isinstance(child, list))
    if tag == "path":
        spots = [float(number) for number in re.findall(r"-?[\d.]+", attributes["d"].split("v")[0])[axis::2]]
        return min(spots) < end and max(spots) > start
    size = attributes.get(("width", "height")[axis], 0)
    spot = attributes.get("xy"[axis], attributes.get(("cx", "cy")[axis]))
    return spot is not None and start < spot + size and spot < end


def _pointer(line: float | None, row: tuple[float, float] | None, state: str) -> Shape:
    """Returns the arrow from a harmed saved tensor to the line that wrote into it."""
    if line is None or row is None:
        return group()
    start, (x, y) = PAD + LEFT - 4, row
    return group(
        path(f"M{x:.0f} {y:.0f}C{x - 60:.0f} {y:.0f} {start + 60:.0f} {line:.0f} {start + 6:.0f} {line:.0f}"),
        path(f"M{start + 9:.0f} {line - 5:.0f}L{start:.0f} {line:.0f}L{start + 9:.0f} {line + 5:.0f}z", kind="tip"),
        kind="pointer sly" if "silent" in state else "pointer",
    )


def _sentence(lines: list[str], top: float, width: float) -> list[Shape]:
    """Returns what the frame says, under the picture."""
    return [
        box(PAD, top, width - 2 * PAD, 14 + LINE * len(lines), 7, kind="card"),
        *(text(PAD + 12, top + 20 + LINE * i, line) for i, line in enumerate(lines)),
    ]


def _panel(gradients: Drawing, still: Still, top: float) -> Shape:
    """Returns the gradient panel."""
    shown = [tree for shape in gradients.shapes if (tree := still.shown(shape))]
    panel = box(0.5, 0.5, gradients.width - 1, gradients.height - 1, 7, kind="card")
    return group(panel, *shown, transform=f"translate({PAD:g} {top:g})")


def _document(scene: Scene, shapes: list[Shape], width: float, height: float, verdict: bool) -> str:
    """Returns the SVG document, with a title and a description for those who do not see it."""
    title = f"{scene.outcome}: {scene.headline}" if verdict else "What will this program do?"
    tree = shape(
        "svg", shape("title", title), shape("style", "{style}"),
        box(0.5, 0.5, width - 1, height - 1, 9, kind="ground"), *shapes,
        xmlns="http://www.w3.org/2000/svg", width=round(width), height=round(height), role="img",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )  # fmt: skip
    return markup(tree).replace("{style}", style(tree), 1)

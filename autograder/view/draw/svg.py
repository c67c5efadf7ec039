"""The static picture: code, memory, graph and gradients at one frame, as a self-contained SVG document.

It contains the widget's shapes in their states at that frame. Colors are explicit because the picture may be shown
without a style sheet, theme or CSS variables; a media query selects dark colors if the reader's system prefers them.
"""

from __future__ import annotations

from autograder.locale.line_breaks import wrap_text
from autograder.locale.translations import join_sentences, translated
from autograder.tape.recording.schema import Recording
from autograder.view.draw.code_panel import LINE, draw_code, panel_height
from autograder.view.draw.graph_viewport import draw_viewport
from autograder.view.draw.markup import tone_of, write_style, write_svg
from autograder.view.draw.static_frame import StaticFrame, freeze
from autograder.view.scene import memory_lanes
from autograder.view.scene.composition import Scene, build_scene
from autograder.view.shapes import Drawing, Shape, box, group, path, shape, text

PAD, GUTTER = 16.0, 24.0
LEFT = float(memory_lanes.WIDTH)
"""Lengths in pixels: the margin, the space between the two columns, and the width of the left one."""

MOST_LANES = 5
"""The maximum number of storages: first those with a harm, then those of the frame, then the latest."""

SIGNS = {"correct": "✓", "raises-forward": "!", "raises-backward": "!", "silently-wrong": "⚠"}


def as_svg(recording: Recording, step: int | None = None) -> str:
    """Return the picture of one step as an SVG document.

    Args:
        recording: the recording to draw.
        step: the step's number as the widget shows it, from 1; None for the step of the last harmful write, else of the
            error, else of the verdict.

    Raises:
        ValueError: the recording does not contain this step.
    """
    scene = build_scene(recording)
    if step is not None and not 1 <= step <= len(scene.frames):
        raise ValueError(f"This recording has the steps 1 to {len(scene.frames)}; you asked for step {step}.")
    return draw_picture(scene, scene.decisive if step is None else step - 1)


def draw_picture(scene: Scene, number: int, verdict: bool = True) -> str:
    """Return the SVG document of a frame, counted from 0; without `verdict`, the outcome and the gradients are hidden."""
    static, frame = freeze(scene, number), scene.frames[number]
    top = 52.0 if verdict else PAD
    code, lines = draw_code(scene, static, number, PAD, top, LEFT)
    lanes, left_end = _memory(scene, static, top + panel_height(len(lines)) + 14)
    graph = draw_viewport(scene.views[0], static, LEFT + PAD + GUTTER, top)
    arrows = [
        _arrow(lines.get(line), graph.anchors.get(edge), static.states.get(edge, "")) for edge, line in frame.links
    ]
    width = LEFT + 2 * PAD + GUTTER + max(graph.width, 200)
    bottom = max(left_end, top + graph.height) + 14
    words = wrap_text(_words(scene, number, verdict), int((width - 60) / 6.3))
    shapes = [code, *lanes, graph.shape, *arrows, *_sentences(words, bottom, width)]
    bottom += 22 + LINE * len(words)
    if verdict and scene.gradients:
        shapes.append(_gradients(scene.gradients, static, bottom + 6))
        width, bottom = max(width, scene.gradients.width + 2 * PAD), bottom + 14 + scene.gradients.height
    if verdict:
        shapes.insert(0, _banner(scene, width))
    return _document(scene, shapes, width, bottom + PAD, verdict)


def _words(scene: Scene, number: int, verdict: bool) -> str:
    """Return the sentences of a frame, without versions if the reader sets them."""
    frame = scene.frames[number]
    if scene.counters is not None and number < len(scene.counters.facts):
        return scene.counters.facts[number]
    return join_sentences([frame.fact, frame.effect if verdict else ""])


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
    drawn = [(lane, shown) for lane in scene.memory.shapes if (shown := static.render(lane))]
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
    start, (x, y) = PAD + LEFT - 4, row
    return group(
        path(f"M{x:.0f} {y:.0f}C{x - 60:.0f} {y:.0f} {start + 60:.0f} {line:.0f} {start + 6:.0f} {line:.0f}"),
        path(f"M{start + 9:.0f} {line - 5:.0f}L{start:.0f} {line:.0f}L{start + 9:.0f} {line + 5:.0f}z", kind="tip"),
        kind="pointer silent" if "silent" in state else "pointer",
    )


def _sentences(lines: list[str], top: float, width: float) -> list[Shape]:
    """Return the frame's sentences, below the picture."""
    return [
        box(PAD, top, width - 2 * PAD, 14 + LINE * len(lines), 7, kind="card"),
        *(text(PAD + 12, top + 20 + LINE * i, line) for i, line in enumerate(lines)),
    ]


def _gradients(gradients: Drawing, static: StaticFrame, top: float) -> Shape:
    """Return the gradient panel."""
    shown = [tree for shape in gradients.shapes if (tree := static.render(shape))]
    panel = box(0.5, 0.5, gradients.width - 1, gradients.height - 1, 7, kind="card")
    return group(panel, *shown, transform=f"translate({PAD:g} {top:g})")


def _document(scene: Scene, shapes: list[Shape], width: float, height: float, verdict: bool) -> str:
    """Return the SVG document, with a title for screen readers."""
    title = scene.title if verdict else translated("What will this program do?")
    tree = shape(
        "svg", shape("title", title), shape("style", "{style}"),
        box(0.5, 0.5, width - 1, height - 1, 9, kind="ground"), *shapes,
        xmlns="http://www.w3.org/2000/svg", width=round(width), height=round(height), role="img",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )  # fmt: skip
    return write_svg(tree).replace("{style}", write_style(tree), 1)

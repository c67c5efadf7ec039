"""Conversion of a Recording to a scene: drawings, and the changes in them for each frame. All pictures are drawn from it."""

from __future__ import annotations

import ast
import hashlib

import msgspec

from autograder.locale.line_breaks import columns
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording, SourceFile
from autograder.tape.recording.verdict_types import OUTCOMES, Gradient
from autograder.view.assets import front_end_words
from autograder.view.playback import Frame
from autograder.view.scene import memory_lanes
from autograder.view.scene.board import Board, Choices, CodeToken, highlight
from autograder.view.scene.counter_question import CounterQuestion, ask_versions
from autograder.view.scene.frame_states import States, StateTracker
from autograder.view.scene.node_graph import NodeGraph
from autograder.view.scene.recording_index import RecordingIndex, index_recording
from autograder.view.scene.timeline import is_withheld
from autograder.view.scene.timeline_parts import SceneTimeline
from autograder.view.shapes import MONO, Drawing, Key, Shape, box, clip, group, text, walk
from autograder.view.text.gradient_values import (
    GradientElement,
    bar_length,
    format_number,
    gradient_name,
    is_wrong,
    list_elements,
)
from autograder.view.text.headline import is_refused, meaning, title
from autograder.view.text.naming import count_noun
from autograder.view.text.sentences import Sentences, decisive_frame, forecast_word

LIMIT = 12  # the maximum number of elements in the panel, for all leaves together

NUMBER, BARS, ROW, HEAD, LONGEST = 94, 130, 24, 34, 30
"""In pixels, the width of a column of numbers, the width of the bars, the height of a row and of the heading; columns of a name."""


Axis = tuple[float, float]  # the x of zero in pixels, and pixels per unit of the gradient


def draw_gradients(recording: Recording) -> Drawing | None:
    """Return the panel, leaves with a wrong gradient first; None if the verdict does not contain gradients.

    Return None also if a check rejected the program for another reason, because "right" would equal the program's
    gradients.
    """
    if is_refused(recording.verdict):
        return None
    gradients = recording.verdict.gradients
    leaves = sorted(gradients.items(), key=lambda item: not is_wrong(item[1]))
    if not leaves:
        return None
    shown = [(name, *_choose(gradient, max(1, LIMIT // len(leaves)))) for name, gradient in leaves[:LIMIT]]
    names = [
        gradient_name(name, gradients[name], element.position) for name, elements, _ in shown for element in elements
    ]
    right = 24 + max(columns(clip(name, LONGEST)) for name in names) * MONO
    top, shapes = float(HEAD), [_heading(right)]
    for name, elements, rest in shown:
        axis = _axis(elements, right)
        for element in elements:
            shapes.append(_row(gradient_name(name, gradients[name], element.position), element, axis, right, top))
            top += ROW
        if rest:
            shapes.append(text(12, top + 12, rest, kind="none"))
            top += ROW
    if len(leaves) > LIMIT:
        more = count_noun(len(leaves) - LIMIT, "and {count} more leaf", "and {count} more leaves")
        shapes.append(text(12, top + 12, more, kind="none"))
        top += ROW
    return Drawing(0, 0, right + 2 * NUMBER + BARS + 28, top + 8, [group(*shapes, kind="gradients")])


def _choose(gradient: Gradient, most: int) -> tuple[list[GradientElement], str]:
    """Return at most `most` elements, the wrong ones first, and the number of wrong ones among the others."""
    elements = list_elements(gradient)
    if len(elements) <= most:
        return elements, ""
    wrong = [element for element in elements if element.is_wrong]
    right = [element for element in elements if not element.is_wrong]
    hidden = max(len(wrong) - most, 0) or translated("none")
    omitted = translated("and {count} more, {wrong} of them wrong", count=len(elements) - most, wrong=hidden)
    return (wrong + right)[:most], omitted


def _axis(elements: list[GradientElement], right: float) -> Axis:
    """Return the axis of one leaf's bars: the longest fills the width, and zero is in the middle if some are negative."""
    lengths = [bar_length(number) for element in elements for number in (element.got, element.true)]
    scale = max(map(abs, lengths), default=0) or 1.0
    signed = min(lengths, default=0) < 0
    return right + 2 * NUMBER + 18 + (BARS / 2 if signed else 0), BARS / scale / (2 if signed else 1)


def _heading(right: float) -> Shape:
    """Return the titles of the columns; `right` is the end of the names."""
    return group(
        text(12, 21, translated("gradient"), kind="title"),
        text(right + NUMBER, 21, translated("got"), kind="title end"),
        text(right + 2 * NUMBER, 21, translated("right"), kind="title end"),
    )


def _row(name: str, element: GradientElement, axis: Axis, right: float, top: float) -> Shape:
    """Return one element: two numbers and two bars."""
    got, true = element.got, element.true
    unknown = translated("not recorded") if got is None else translated("not known")
    right_number = unknown if true is None else format_number(true)
    return group(
        text(12, top + 14, clip(name, LONGEST), kind="name"),
        text(right + NUMBER, top + 14, ("✗ " if element.is_wrong else "") + format_number(got), kind="got end"),
        text(right + 2 * NUMBER, top + 14, right_number, kind="right end"),
        *_bar(axis, top + 3, bar_length(got), "got"),
        *_bar(axis, top + 11, bar_length(true), "right"),
        box(axis[0] - 0.5, top + 1, 1, 18, kind="zero"),
        kind="row wrong" if element.is_wrong else "row",
    )


def _bar(axis: Axis, top: float, value: float, kind: str) -> list[Shape]:
    """Return the bar of a value, to the left of zero if it is negative; an empty list if it is too short to be visible."""
    zero, width = axis[0], value * axis[1]
    return [box(min(zero, zero + width), top, abs(width), 6, 1.5, kind=f"bar {kind}")] if abs(width) > 0.2 else []


def lines_shown(recording: Recording, program: SourceFile) -> range:
    """Return the numbers of the lines to show: those of the function that ran if there are several, else all.

    The decorators of the course, which the cell above shows, are left out.
    """
    whole = range(1, len(program.source.splitlines()) + 1)
    try:
        body = ast.parse(program.source).body
    except SyntaxError:  # a cell with a magic in its first line
        return whole
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    ran = {step.place.line for step in recording.steps if step.place.file == program.file}
    inside = [function for function in functions if ran and ran <= set(_span(function))]
    only = len(functions) == 1 and len(_decorators(functions[0])) == len(functions[0].decorator_list)
    return _span(inside[0]) if inside and not only else whole


def _span(function: ast.FunctionDef) -> range:
    first = min([function.lineno, *(decorator.lineno for decorator in _decorators(function))])
    return range(first, (function.end_lineno or function.lineno) + 1)


def _decorators(function: ast.FunctionDef) -> list[ast.expr]:
    names = ("observed", "predicted", "predicted_value", "culprit", "versions_hidden")
    return [decorator for decorator in function.decorator_list if ast.unparse(decorator).partition("(")[0] not in names]


MOST_HIGHLIGHTS, MOST_NOW, MOST_LINKS = 6, 24, 3
"""The maximum number of highlighted parts while backward visits a node and in other frames, and of arrows to lines."""

MOST_FRAMES, NEAR, ENDS = 400, 150, 25
"""The number of frames up to which all are shown; of more, those near the decisive one, and those at the start and the end."""


class CodeLine(msgspec.Struct):
    """One line of a program, highlighted, with the key of its state."""

    key: str
    tokens: list[CodeToken]


class CodeFile(msgspec.Struct):
    """One program: the name of its file or cell, its lines, and the number of the first one."""

    file: str
    lines: list[CodeLine]
    first: int = 1


class SceneFrame(msgspec.Struct):
    """One frame: its sentences, and the changes in the drawings."""

    line: str  # key of the running line; may be ""
    # the caption; effects are hidden while the reader predicts
    fact: str
    changes: dict[str, str]  # key → new class name or text
    now: list[str]  # keys to highlight in this frame
    meaning: str = ""
    effect: str = ""
    others: str = ""
    details: str = ""
    forecast: tuple[str, str] | None = None  # an outcome and the badge's word for it; None if no loss requires grad yet
    links: list[tuple[str, str]] = []  # pairs (key of a saved tensor, key of the line that modified it)
    kind: str = "step"  # "step" for a statement, "visit" for a visit of backward to a node, "end" for the verdict
    number: int = 0  # the number of the step, from 1; some are missing in a long run


class Scene(msgspec.Struct, kw_only=True):
    """The complete input of a front end; it does not contain code or markup."""

    id: str  # identifier, equal for the same run in the same language, so that a page counts each prediction once
    outcome: str  # the outcome of the run
    title: str  # the outcome and its meaning, in one line
    programs: list[CodeFile] = []  # the code pane
    frames: list[SceneFrame]  # the frames, in order
    views: list[Drawing]  # the graph; the first one is the whole program, the others are the contents of its folds
    memory: Drawing  # the memory pane
    # the storages that are folded in the memory pane, with the words of the fold as their title
    others: Drawing | None = None
    gradients: Drawing | None = None  # the gradient panel, if any
    decisive: int = 0  # 0-based frame of the last harmful write, else of the error, else of the verdict
    start: int = 0  # 0-based frame at which a live picture opens
    # whether it opens at the first frame although the decisive one may be shown, to which a button leads
    from_start: bool = False
    ask: int | None = None  # 0-based frame before which the reader predicts, or None
    outcomes: list[tuple[str, str]] = []  # each outcome with its meaning
    place: str = ""  # class name of the page element that a live widget replaces; "" without a widget
    is_playable: bool = False  # whether a front end may request the program as a board
    board: Board | None = None  # the program as cards, in place of its code; None if the code cannot be edited
    choices: Choices | None = None  # the buttons of an open prediction; if set, other parts are not drawn
    # the versions at the frame before `ask`, which the reader sets; None if they are shown
    counters: CounterQuestion | None = None
    # whether a check rejected a program whose gradients are right; the badge then replaces the outcome with this
    is_refused: bool = False
    # the figure that is shown first, above the graph; None if the graph is shown alone
    timeline: SceneTimeline | None = None
    words: dict[str, str] = {}  # the front end's own texts in the reader's language, by the English text


def build_scene(recording: Recording, predict: bool = False, place: str = "", counters: bool = False) -> Scene:
    """Return the scene of a recording, for a live widget in place of the page element of class `place`.

    With `predict`, the reader chooses an outcome before the last frames are shown; with `counters`, the reader sets the
    version counters before they are shown.
    """
    index = index_recording(recording)
    graph = NodeGraph(index)
    lanes, others = memory_lanes.collect_lanes(index)
    memory = _memory(index, lanes)
    folded = _memory(index, others, count_noun(len(others), "{count} other", "{count} others")) if others else None
    point = decisive_frame(recording, index.playback.frames)
    drawings = [*graph.views, memory, *([folded] if folded else [])]
    keys = {part[1].get("k", "") for drawing in drawings for tree in drawing.shapes for part in walk(tree)}
    frames = _frames(recording, index, graph, point, keys)
    decisive = next(i for i, frame in enumerate(frames) if frame.number == point)
    ask = _ask(frames, versions=not predict) if predict or counters else None
    texts = {key for frame in frames for key in frame.changes}
    programs, gradients = _programs(recording), draw_gradients(recording)
    # Hash the shown data, not the recording: bytes that are not shown may be uninitialized memory, which differs between runs.
    shown = msgspec.json.encode((recording.verdict.outcome, programs, frames, gradients))
    return Scene(
        id=hashlib.sha256(shown).hexdigest()[:12],
        outcome=recording.verdict.outcome,
        title=title(recording.verdict, programs[0].file if programs else ""),
        is_refused=is_refused(recording.verdict),
        programs=programs,
        frames=frames,
        views=graph.views,
        memory=memory,
        others=folded,
        gradients=gradients,
        decisive=decisive,
        start=0 if ask is not None or is_withheld(recording) else decisive,
        ask=ask,
        outcomes=[(outcome, meaning(outcome)) for outcome in OUTCOMES],
        place=place,
        counters=ask_versions(recording, ask, texts) if counters and ask else None,
        words=front_end_words(),
    )


def _programs(recording: Recording) -> list[CodeFile]:
    """Return the code pane: each program's lines with their keys."""
    programs = []
    for number, program in enumerate(recording.programs):
        lines, shown = enumerate(highlight(program.source), 1), lines_shown(recording, program)
        rows = [CodeLine(str(Key("line", line, program=number)), tokens) for line, tokens in lines if line in shown]
        programs.append(CodeFile(program.file, rows, shown.start))
    return programs


def _memory(index: RecordingIndex, lanes: list[memory_lanes.MemoryLane], title: str = "") -> Drawing:
    shapes, top = [], 0.0
    for lane in lanes:
        shapes.append(memory_lanes.draw_lane(lane, index, top))
        top += lane.height + memory_lanes.GAP
    return Drawing(0, 0, memory_lanes.WIDTH, max(top - memory_lanes.GAP, 20), shapes, title)


def _ask(frames: list[SceneFrame], versions: bool) -> int:
    """Return the 0-based frame of the statement that calls backward, else of the last one; for versions the one after it."""
    visit = next((i for i, frame in enumerate(frames) if frame.kind == "visit"), None)
    if versions:
        return len(frames) - 1 if visit is None else visit - 1
    return max(len(frames) - 2 if visit is None else visit - 1, 0)


def _frames(
    recording: Recording, index: RecordingIndex, graph: NodeGraph, decisive: int, keys: set[str]
) -> list[SceneFrame]:
    """Return the frames, each with only the differences from the previous one, in the parts that are drawn under `keys`."""
    tracker = StateTracker(recording, index, graph)
    count = len(tracker.playback.frames)
    current: States = {}
    waiting: States = {}
    frames = []
    for frame, changed in tracker.playback.play():
        waiting |= tracker.changes(frame, changed)
        number = frame.number
        if count <= MOST_FRAMES or abs(number - decisive) <= NEAR or number <= ENDS or number > count - ENDS:
            changes = {key: value for key, value in waiting.items() if current.get(key) != value}
            current |= changes
            drawn = {key: value for key, value in changes.items() if key.part == "line" or str(key) in keys}
            frames.append(_frame(tracker, frame, drawn))
            waiting = {}
    return frames


def _frame(tracker: StateTracker, frame: Frame, changes: States) -> SceneFrame:
    """Return one frame, its keys as text."""
    playback = tracker.playback
    return SceneFrame(
        line=str(tracker.line_key(frame.place)) if frame.place else "",
        **vars(tracker.sentences.caption(frame)),
        changes={str(key): value for key, value in changes.items()},
        now=[str(key) for key in _highlights(frame, changes, tracker.versions)][:MOST_NOW],
        forecast=_forecast(frame, tracker.sentences),
        links=[
            (str(Key("saved", edge)), str(tracker.line_key(playback.harmed[edge][-1].place)))
            for edge in tracker.index.focus
            if edge in playback.harmed and playback.condition(playback.saved[edge]) in ("stale", "silent")
        ][:MOST_LINKS],
        kind=frame.kind,
        number=frame.number,
    )


def _highlights(frame: Frame, changes: States, versions: dict[Key, int | None]) -> list[Key]:
    """Return the keys to highlight: new nodes, written memory, versions that count a write, the node that backward visits."""
    if frame.visit:
        return [key for key in changes if key.part in ("node", "tensor", "got", "right")][:MOST_HIGHLIGHTS]
    if frame.kind == "end":
        return []
    parts = [key for key in changes if key.part in ("node", "tensor", "memory", "saved") and not key.label]
    return parts + [key for key in changes if key.label == "version" and versions[key]]


def _forecast(frame: Frame, sentences: Sentences) -> tuple[str, str] | None:
    """Return the forecast of a frame: the outcome and the badge's word; "raises-forward" if the program stops there."""
    if frame.step and sentences.stops_in_forward(frame.step):
        return "raises-forward", forecast_word("raises-forward")
    forecast = frame.step.forecast if frame.step else None
    return (forecast.outcome, forecast_word(forecast.outcome)) if forecast else None

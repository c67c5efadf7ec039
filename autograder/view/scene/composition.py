"""A Recording as a scene: drawings with keys, and for each frame what changes. The static picture and the widget draw this."""

from __future__ import annotations

import hashlib

import msgspec

from autograder.tape.recording.schema import Recording, to_json
from autograder.tape.recording.verdict_types import OUTCOMES
from autograder.view.playback import Frame, Touched
from autograder.view.scene import memory_lanes
from autograder.view.scene.blocks import Facts, learn
from autograder.view.scene.code_tokens import Run, coloured
from autograder.view.scene.frame_states import States
from autograder.view.scene.node_graph import MARGIN, NodeGraph
from autograder.view.shapes import Drawing
from autograder.view.text import gradient_rows
from autograder.view.text.sentences import FORECAST, MEANING, telling


class Moment(msgspec.Struct):
    """One frame: what the reader is told, and what changes in the drawings.

    Attributes:
        line: key of the code line that is lit, "l0.8" for line 8 of the first program.
        changes: key → new class name or text; `now`: keys to point out in this frame.
        forecast: an outcome and its word, or None.
        links: pairs (saved edge's key, key of the line that wrote what it keeps).
        step: whether a statement ran (else backward visits, or the end).
    """

    line: str
    fact: str
    effect: str
    changes: dict[str, str]
    now: list[str]
    forecast: tuple[str, str] | None = None
    links: list[tuple[str, str]] = []
    kind: str = "step"


class Scene(msgspec.Struct):
    """Everything that a front end needs; nothing in it is code or markup.

    Attributes:
        id: the same for the same recording; the page's score counts it once.
        telling: 0-based frame that shows the point.
        start: 0-based frame where a live picture opens.
        ask: 0-based frame before which a learner predicts, or None.
    """

    id: str
    outcome: str
    headline: str
    programs: list[list[list[Run]]]
    files: list[str]
    moments: list[Moment]
    views: list[Drawing]
    memory: Drawing
    gradients: Drawing | None
    telling: int
    start: int = 0
    ask: int | None = None
    outcomes: list[tuple[str, str]] = []
    place: str = ""


def build(recording: Recording, predict: bool = False, place: str = "") -> Scene:
    """Returns the scene of a recording.

    Args:
        predict: the learner chooses an outcome before the last step is shown.
        place: class name of the element in the page where a live widget belongs; "" where it gets its own.
    """
    facts = learn(recording)
    graph = NodeGraph(facts)
    moments = _moments(recording, facts, graph)
    point = telling(recording, facts.playback.frames) - 1
    return Scene(
        id=hashlib.sha256(to_json(recording).encode()).hexdigest()[:12],
        outcome=recording.verdict.outcome,
        headline=MEANING[recording.verdict.outcome],
        programs=[coloured(program.source) for program in recording.programs],
        files=[program.file for program in recording.programs],
        moments=moments,
        views=[Drawing(-MARGIN, -MARGIN, v.width, v.height, v.tree, v.title, v.parent) for v in graph.views],
        memory=_memory(facts),
        gradients=gradient_rows.draw(recording),
        telling=point,
        start=0 if predict or _withheld(recording) else point,
        ask=_ask(moments) if predict else None,
        outcomes=[(outcome, MEANING[outcome]) for outcome in OUTCOMES],
        place=place,
    )


def _withheld(recording: Recording) -> bool:
    """Returns whether the verdict leaves out who did the harm, so that the reader finds the line: then no picture opens on it."""
    harmed = any(write.harmed for step in recording.steps for write in step.writes)
    failed = recording.verdict.outcome in ("raises-backward", "silently-wrong")
    return failed and harmed and not recording.verdict.harms


def _memory(facts: Facts) -> Drawing:
    """Returns the memory pane."""
    shapes, top = [], 0.0
    for piece in memory_lanes.pieces(facts):
        shapes.append(memory_lanes.draw(piece, facts, top))
        top += piece.height + memory_lanes.GAP
    return Drawing(0, 0, memory_lanes.WIDTH, max(top - memory_lanes.GAP, 20), shapes)


def _ask(moments: list[Moment]) -> int:
    """Returns the 0-based frame that a prediction must come before: backward's statement, or the one that raised."""
    visit = next((i for i, moment in enumerate(moments) if moment.kind == "visit"), None)
    if visit is not None:
        return max(visit - 1, 0)
    return max(len(moments) - 2, 0)


def _moments(recording: Recording, facts: Facts, graph: NodeGraph) -> list[Moment]:
    """Returns the film: only what differs from the frame before."""
    states = States(recording, facts, graph)
    current: dict[str, str] = {}
    moments = []
    for frame, touched in states.now.play():
        changes = {key: value for key, value in states.changes(frame, touched).items() if current.get(key) != value}
        current |= changes
        moments.append(
            Moment(
                line=_line(recording, frame),
                fact=states.words.fact(frame),
                effect=states.words.effect(frame),
                changes=changes,
                now=_now(frame, touched, changes, current),
                forecast=_forecast(frame),
                links=_links(states, recording) if frame.kind == "step" else [],
                kind=frame.kind,
            )
        )
    return moments


def _line(recording: Recording, frame: Frame) -> str:
    """Returns the key of the lit line."""
    if frame.place is None:
        return ""
    files = [program.file for program in recording.programs]
    number = files.index(frame.place.file) if frame.place.file in files else 0
    return f"l{number}.{frame.place.line}"


def _now(frame: Frame, touched: Touched, changes: dict[str, str], current: dict[str, str]) -> list[str]:
    """Returns what the frame points out: new nodes, written memory, versions that ticked, the node backward visits."""
    if frame.visit:
        return [key for key in changes if key[0] in "ntbr" and current.get(key) is not None][:6]
    if frame.kind == "end":
        return []
    ticked = [key for key in changes if key.endswith("c") and changes[key][-1] != "0"]
    return [key for key in changes if key[0] in "ntse" and key[1:].isdigit()] + ticked


def _forecast(frame: Frame) -> tuple[str, str] | None:
    """Returns the forecast of a frame: the outcome and the badge's word."""
    forecast = frame.step.forecast if frame.kind == "step" and frame.step else None
    return (forecast.outcome, FORECAST[forecast.outcome]) if forecast else None


def _links(states: States, recording: Recording) -> list[tuple[str, str]]:
    """Returns each harmed saved edge with the line whose write hit it last."""
    files = {program.file: i for i, program in enumerate(recording.programs)}
    return [
        (f"e{edge}", f"l{files.get(writes[-1].place.file, 0)}.{writes[-1].place.line}")
        for edge, writes in states.now.harmed.items()
        if states.now.condition(states.now.saved[edge]) in ("stale", "silent")
    ][:6]

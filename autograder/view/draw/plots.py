"""Two plots, where a plot says it better than boxes: version counters over the program's steps, and large gradients.

matplotlib is imported at the first call, so that drawing a picture does not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autograder.errors import InputError
from autograder.tape.recording.schema import Recording
from autograder.view.playback import Playback
from autograder.view.text.gradient_rows import length, pairs, same
from autograder.view.text.naming import TensorNames

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
"""Okabe and Ito's colours, which readers with any colour vision tell apart; markers and names repeat what they say."""

MARKERS = "o^sD*P"


def versions(recording: Recording, axes: Axes | None = None) -> Axes:
    """Returns a plot of each version counter over the steps, with every write on it.

    A write that a counter counts lifts its line; a write that none counts is a cross on a line that stays flat.

    Args:
        axes: where to plot; None for a new figure.
    """
    axes = axes or _axes("step", "version (in-place writes so far)")
    counts, writes, names = _counters(recording)
    for number, (counter, points) in enumerate(counts.items()):
        if not (any(y for _, y in points) or counter in writes):
            continue
        steps, heights = zip(*points, strict=True)
        (line,) = axes.plot(steps, heights, drawstyle="steps-post", label=names[counter], color=COLOURS[number % 6])
        line.set(marker=MARKERS[number % 6], markevery=[0])
        for step, counted in writes.get(counter, []):
            height = max(y for x, y in points if x <= step)
            marker, said = ("P", "write, counted") if counted else ("X", "write, not counted")
            axes.plot(
                step, height, marker, color=COLOURS[number % 6], markeredgecolor="black", markersize=9, label=said
            )
    axes.locator_params(integer=True)
    axes.set_ylim(-0.3, max([1.0, *(y for points in counts.values() for _, y in points)]) + 0.3)
    _legend(axes)
    return axes


Points = dict[int, list[tuple[int, int]]]


def _counters(recording: Recording) -> tuple[Points, dict[int, list[tuple[int, bool]]], dict[int, str]]:
    """Returns counter → its (frame, count); counter → its writes (frame, counted); counter → the names of its tensors."""
    playback = Playback(recording)
    called_now = TensorNames(playback)
    counts: Points = {}
    writes: dict[int, list[tuple[int, bool]]] = {}
    names: dict[int, str] = {}
    for frame, _ in playback.play():
        for counter, count in playback.versions.items():
            if count is not None:
                counts.setdefault(counter, []).append((frame.number, count))
        for write in frame.step.writes if frame.kind == "step" and frame.step else ():
            touched = {playback.tensors[tensor].counter for tensor in playback.in_storage.get(write.storage, ())}
            for counter in touched:
                writes.setdefault(counter, []).append((frame.number, counter in write.counters))
        for counter in counts:
            called = dict.fromkeys(called_now.label(tensor) for tensor in sorted(playback.family.get(counter, ())))
            names[counter] = ", ".join(name for name in called if name != "(no name)") or "(no name)"
    return counts, writes, names


def gradients(recording: Recording, name: str, axes: Axes | None = None) -> Axes:
    """Returns a plot of one leaf's gradient: what it got against what is right, element by element.

    Right elements lie on the line; wrong ones are crosses beside it. NaN and infinite elements cannot be plotted and are counted.

    Args:
        name: the leaf, as the verdict names it.
        axes: where to plot; None for a new figure.

    Raises:
        KeyError: the verdict knows no leaf of that name.
        ValueError: this run left no gradient, or the right one is not known, so there is nothing to compare.
    """
    known = recording.verdict.gradients
    if name not in known:
        raise KeyError(f"No leaf is called {name!r}; the verdict knows {', '.join(known) or 'none'}.")
    if known[name].got is None or known[name].true is None:
        raise InputError(f"{name} has no gradient to compare: got {known[name].got}, right is {known[name].true}.")
    axes = axes or _axes("right gradient", f"{name}.grad of this run")
    points = [(true, got) for _, got, true in pairs(known[name]) if length(true) == true and length(got) == got]
    good = [point for point in points if same(*point)]
    bad = [point for point in points if not same(*point)]
    ends = [min((v for p in points for v in p), default=0), max((v for p in points for v in p), default=1)]
    axes.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    for part, style in ((good, ("o", COLOURS[2], "right")), (bad, ("X", COLOURS[3], "wrong"))):
        if part:
            axes.plot(*zip(*part, strict=True), style[0], color=style[1], label=f"{style[2]}: {len(part)}", alpha=0.7)
    hidden = len(pairs(known[name])) - len(points)
    axes.set_title(f"{hidden} elements are not finite" if hidden else "")
    _legend(axes)
    return axes


def _axes(across: str, up: str) -> Axes:
    """Returns the axes of a new figure, labelled."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    axes.set(xlabel=across, ylabel=up)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _legend(axes: Axes) -> None:
    """Adds a legend that names each thing once."""
    handles: dict[str, Any] = {}
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        handles.setdefault(label, handle)
    if handles:
        axes.legend(handles.values(), handles.keys(), frameon=False)

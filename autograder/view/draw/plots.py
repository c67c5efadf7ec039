"""Three plots with matplotlib: losses over training steps, version counters over a program, a gradient against the right one.

matplotlib is imported at the first call, so that drawing a picture need not load it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from autograder.errors import InputError
from autograder.locale.translations import translatable, translated
from autograder.tape.recording.schema import Recording
from autograder.view.playback import Playback
from autograder.view.text.gradient_values import bar_length, gradient_name, list_elements
from autograder.view.text.naming import TensorNames

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "Microsoft YaHei", "SimHei", "PingFang SC",
    "Hiragino Sans GB", "STHeiti", "Arial Unicode MS", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback",
)  # fmt: skip
"""Common fonts with Chinese letters. From a file with several faces, matplotlib uses only the first."""


def plot_words(text: str, /, **values: object) -> str:
    """Return a text for a plot in the reader's language; in English if no font has its letters, which would be drawn as boxes."""
    translation = translated(text, **values)
    if translation.isascii() or font_families():
        return translation
    return text.format(**values) if values else text


@functools.cache
def font_families() -> tuple[str, ...]:
    """Return the fonts in `FONTS` that matplotlib finds on this machine."""
    from matplotlib import font_manager

    present = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(name for name in FONTS if name in present)


INK = "#787878"
"""The color of texts and axes: a gray that is equally readable on a white page and on JupyterLab's dark background."""

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", INK)
"""The palette of Okabe and Ito, which is suitable for all kinds of color vision; markers and labels carry the same information."""

MARKERS = "o^sD*P"

COUNTED, NOT_COUNTED = ("P", translatable("write, counted")), ("X", translatable("write, not counted"))
RIGHT, WRONG = ("o", COLOURS[2], translatable("right")), ("X", COLOURS[3], translatable("wrong"))
"""The markers of writes and elements, and their labels in the legend."""


def plot_losses(runs: dict[str, list[float]], axes: Axes | None = None) -> Axes:
    """Return a plot of losses over training steps, one line for each run, on a logarithmic scale.

    Args:
        runs: name of a run → its loss at every step.
        axes: the axes to plot on; None for the axes of a new figure.
    """
    axes = axes or _axes(plot_words(translatable("step")), plot_words(translatable("loss")))
    for number, (name, losses) in enumerate(runs.items()):
        style = ("-", "--", ":")[number % 3]
        label = plot_words(translatable("{name}: {loss} at the end"), name=name, loss=f"{losses[-1]:.2g}")
        axes.plot(losses, style, color=COLOURS[number % 6], label=label)
    axes.set_yscale("log")
    _legend(axes)
    return axes


def plot_versions(recording: Recording, axes: Axes | None = None) -> Axes:
    """Return a plot of each version counter over the steps, with every write marked.

    The line rises at a write that the counter counts; a write that it does not count is a cross on a flat line.

    Args:
        recording: the recording to plot.
        axes: the axes to plot on; None for the axes of a new figure.
    """
    axes = axes or _axes(plot_words(translatable("step")), plot_words(translatable("version (in-place writes so far)")))
    counts, writes, names = _counters(recording)
    for number, (counter, points) in enumerate(counts.items()):
        if not (any(y for _, y in points) or counter in writes):
            continue
        steps, heights = zip(*points, strict=True)
        (line,) = axes.plot(steps, heights, drawstyle="steps-post", label=names[counter], color=COLOURS[number % 6])
        line.set(marker=MARKERS[number % 6], markevery=[0])
        for step, counted in writes.get(counter, []):
            height = max(y for x, y in points if x <= step)
            marker, words = COUNTED if counted else NOT_COUNTED
            label = plot_words(words)
            axes.plot(step, height, marker, color=COLOURS[number % 6], markeredgecolor=INK, markersize=9, label=label)
    axes.locator_params(integer=True)
    axes.set_ylim(-0.3, max([1.0, *(y for points in counts.values() for _, y in points)]) + 0.3)
    _legend(axes)
    return axes


Points = dict[int, list[tuple[int, int]]]


def _counters(recording: Recording) -> tuple[Points, dict[int, list[tuple[int, bool]]], dict[int, str]]:
    """Return for each counter its (frame, count), its writes (frame, whether it counted), and the names of its tensors."""
    playback = Playback(recording)
    tensor_names = TensorNames(playback)
    counts: Points = {}
    writes: dict[int, list[tuple[int, bool]]] = {}
    names: dict[int, str] = {}
    for frame, _ in playback.play():
        for counter, count in playback.versions.items():
            if count is not None:
                counts.setdefault(counter, []).append((frame.number, count))
        for write in frame.step.writes if frame.step else ():
            written = {playback.tensors[tensor].counter for tensor in playback.in_storage.get(write.storage, ())}
            for counter in written:
                writes.setdefault(counter, []).append((frame.number, counter in write.counters))
        for counter in counts:
            labels = dict.fromkeys(
                tensor_names.label(tensor) for tensor in sorted(playback.tensors_of_counter.get(counter, ()))
            )
            nameless = translated("(no name)")
            names[counter] = ", ".join(name for name in labels if name != nameless) or nameless
    return counts, writes, names


def plot_gradients(recording: Recording, name: str, axes: Axes | None = None) -> Axes:
    """Return a plot of one leaf's gradient against the right one, element by element.

    Right elements are on the diagonal, and wrong ones are crosses off it. The title contains the number of NaN and
    infinite elements, which are not plotted.

    Args:
        recording: the recording to plot.
        name: the leaf's name in the verdict.
        axes: the axes to plot on; None for the axes of a new figure.

    Raises:
        KeyError: the verdict does not contain a leaf of that name.
        ValueError: the run computed no gradient for it, or the right one is unknown.
    """
    gradients = recording.verdict.gradients
    if name not in gradients:
        raise KeyError(f"No leaf is called {name!r}; the verdict has {', '.join(gradients) or 'none'}.")
    if gradients[name].got is None or gradients[name].true is None:
        raise InputError.of(
            "plot.no_gradient|{name} has no gradient to compare: got {got}, right is {true}.",
            name=name,
            got=gradients[name].got,
            true=gradients[name].true,
        )
    axes = axes or _axes(
        plot_words(translatable("right gradient")),
        plot_words(translatable("{gradient} of this run"), gradient=gradient_name(name, gradients[name])),
    )
    elements = list_elements(gradients[name])
    plotted = [e for e in elements if bar_length(e.true) == e.true and bar_length(e.got) == e.got]
    numbers = [number for e in plotted for number in (e.true, e.got)]
    ends = [min(numbers, default=0), max(numbers, default=1)]
    axes.plot(ends, ends, color=INK, linewidth=1, zorder=0)
    for is_wrong, (marker, colour, words) in ((False, RIGHT), (True, WRONG)):
        if part := [(e.true, e.got) for e in plotted if e.is_wrong is is_wrong]:
            label = plot_words(translatable("{label}: {text}"), label=plot_words(words), text=len(part))
            axes.plot(*zip(*part, strict=True), marker, color=colour, label=label, alpha=0.7)
    hidden = len(elements) - len(plotted)
    axes.set_title(plot_words(translatable("{count} elements are not finite"), count=hidden) if hidden else "")
    _legend(axes)
    return axes


def _axes(across: str, up: str) -> Axes:
    """Return the axes of a new figure, labeled, with a transparent background."""
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained", facecolor="none")
    axes.set(xlabel=across, ylabel=up, facecolor="none")
    axes.tick_params(which="both", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(INK)
    return axes


def _legend(axes: Axes) -> None:
    """Add a legend with each label once, lines first; give all texts a readable color, and fonts for letters that theirs lack."""
    from matplotlib.text import Text

    handles: dict[str, Any] = {}
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        handles.setdefault(label, handle)
    if handles:
        labels = sorted(handles, key=lambda label: handles[label].get_linestyle() == "None")
        axes.legend([handles[label] for label in labels], labels, frameon=False)
    for text in axes.findobj(Text):
        text.set(color=INK, fontfamily=[*text.get_fontfamily(), *font_families()])

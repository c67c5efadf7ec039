"""The texts of a plot in the reader's language, if matplotlib finds a font with the required letters."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from autograder.locale.translations import translated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "Microsoft YaHei", "SimHei", "PingFang SC",
    "Hiragino Sans GB", "STHeiti", "Arial Unicode MS", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback",
)  # fmt: skip
"""Common fonts with Chinese letters. From a file with several faces, matplotlib uses only the first."""


def plot_words(text: str, /, **values: object) -> str:
    """Return a text for a plot in the reader's language; in English if no font has its letters, which would be drawn as boxes."""
    told = translated(text, **values)
    if told.isascii() or font_families():
        return told
    return text.format(**values) if values else text


def use_fonts(axes: Axes) -> None:
    """Let each text of a plot use other fonts for letters that its own font lacks."""
    from matplotlib.text import Text

    for text in axes.findobj(Text):
        text.set_fontfamily([*text.get_fontfamily(), *font_families()])


@functools.cache
def font_families() -> tuple[str, ...]:
    """Return the fonts in `FONTS` that matplotlib finds on this machine."""
    from matplotlib import font_manager

    present = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(name for name in FONTS if name in present)

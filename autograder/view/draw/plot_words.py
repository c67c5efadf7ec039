"""The words of a plot in the reader's language, where matplotlib finds a font that has their letters."""

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
"""Fonts with Chinese letters, as systems have them. Of a file with several faces matplotlib knows the first one only."""


def plot_words(text: str, /, **values: object) -> str:
    """Returns a text for a plot in the reader's language; in English where no font has its letters, which would be empty boxes."""
    told = translated(text, **values)
    if told.isascii() or font_families():
        return told
    return text.format(**values) if values else text


def use_fonts(axes: Axes) -> None:
    """Lets each text of a plot take letters that its own font lacks from another one."""
    from matplotlib.text import Text

    for text in axes.findobj(Text):
        text.set_fontfamily([*text.get_fontfamily(), *font_families()])


@functools.cache
def font_families() -> tuple[str, ...]:
    """Returns those of `FONTS` that matplotlib finds on this machine."""
    from matplotlib import font_manager

    present = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(name for name in FONTS if name in present)

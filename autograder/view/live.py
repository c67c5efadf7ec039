"""The class of the live widget, in its own module because importing anywidget and ipywidgets takes time and needs an extra."""

from __future__ import annotations

import anywidget
import traitlets

from autograder.view.assets import front_end, read_asset


class PictureWidget(anywidget.AnyWidget):
    """A scene that the front-end module draws: it reads the trait `scene`, and sets `arrangement` when the reader edits the program."""

    _esm = front_end()
    _css = read_asset("graph.css")
    scene = traitlets.Dict().tag(sync=True)
    arrangement = traitlets.Dict().tag(sync=True)

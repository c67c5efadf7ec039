"""The live widget's class, in a module of its own because importing anywidget and ipywidgets takes time and needs an extra."""

from __future__ import annotations

import anywidget
import traitlets

from autograder.view.assets import front_end, read_asset


class PictureWidget(anywidget.AnyWidget):
    """A scene drawn by the front-end module, which reads the trait `scene`; where the program can be changed, it sets `arrangement`."""

    _esm = front_end()
    _css = read_asset("graph.css")
    scene = traitlets.Dict().tag(sync=True)
    arrangement = traitlets.Dict().tag(sync=True)

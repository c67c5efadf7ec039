"""The live widget's class, in a module of its own because importing anywidget and ipywidgets takes time and needs an extra."""

from __future__ import annotations

import anywidget
import traitlets

from autograder.view.assets import read_asset


class PictureWidget(anywidget.AnyWidget):
    """A scene drawn by graph.js, which reads the trait `scene` and sends nothing back to the kernel."""

    _esm = read_asset("graph.js")
    _css = read_asset("graph.css")
    scene = traitlets.Dict().tag(sync=True)

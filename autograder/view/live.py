"""The live widget's class; apart, because importing it opens the machinery of ipywidgets."""

from __future__ import annotations

import anywidget
import traitlets

from autograder.view.assets import asset


class Picture(anywidget.AnyWidget):
    """A scene in the front end. It reads one trait and tells the kernel nothing."""

    _esm = asset("graph.js")
    _css = asset("graph.css")
    scene = traitlets.Dict().tag(sync=True)

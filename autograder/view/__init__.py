"""Rendering of a Recording as text, as a static picture, as an HTML page, and live in a notebook. Does not import torch.

from autograder import tape, view

view.show(tape.record(source))
"""

from autograder.view.draw.html import as_html
from autograder.view.draw.plots import plot_gradients, plot_losses, plot_versions
from autograder.view.draw.svg import as_svg
from autograder.view.notebook import draws_here, get_ready, mimebundle, show, widget
from autograder.view.text.first_screen import as_screen
from autograder.view.text.report import as_text

__all__ = [
    "as_html", "as_screen", "as_svg", "as_text", "draws_here", "get_ready", "mimebundle", "plot_gradients", "plot_losses",
    "plot_versions", "show", "widget",
]  # fmt: skip

"""Imports the modules of a process's first plot: matplotlib, and the backend that shows its figures below their cell."""

import importlib

importlib.import_module("matplotlib.pyplot")
importlib.import_module("matplotlib_inline.backend_inline")

"""Importing this loads what a process's first plot takes: matplotlib, and what shows its figures below their cell."""

import importlib

importlib.import_module("matplotlib.pyplot")
importlib.import_module("matplotlib_inline.backend_inline")

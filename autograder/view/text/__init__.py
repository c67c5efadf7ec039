"""Rendering of a Recording as text: the report, its sentences, names and numbers."""

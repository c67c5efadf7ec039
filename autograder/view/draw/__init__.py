"""Conversion of a scene to an SVG document, a self-contained HTML page, and plots."""

"""A scene drawn: SVG, self-contained HTML, plots."""

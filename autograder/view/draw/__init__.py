"""A scene as an SVG document, as an HTML page without other files, and as plots."""

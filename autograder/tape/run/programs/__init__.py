"""Programs that can be run: a text, function, file, module or cell, started as Python would start it."""

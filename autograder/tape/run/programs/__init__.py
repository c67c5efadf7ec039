"""What can be run, as text, function, file, module or cell, and how Python would start it."""

"""A Recording: frozen plain data, with its JSON form. Imports no torch."""

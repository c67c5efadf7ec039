"""A program, and one run of it in a closed world."""

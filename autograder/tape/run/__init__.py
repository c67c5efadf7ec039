"""A program, and one run of it in isolation: everything global is restored."""

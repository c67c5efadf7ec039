"""A program with a changed text: made, run, and compared with what the program was meant to compute."""

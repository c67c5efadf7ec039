"""Compare several runs of a program to reach a verdict, with the harms that explain it."""

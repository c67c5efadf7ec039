"""Functions for students: hints, model answers, programs to play with, progress, and the lesson that explains an error."""

"""What a learner asks for and has: hints, model answers, programs to play with, progress, and the lesson behind an error."""

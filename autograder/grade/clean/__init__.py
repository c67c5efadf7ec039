"""What a submission shows, reduced to what can neither run nor load anything in a reader's browser."""

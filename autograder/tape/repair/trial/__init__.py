"""Create and run programs with a changed source, and compare them with the intended results."""

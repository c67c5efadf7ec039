"""Sanitizing of a submission's contents, so that they cannot run or load anything in a reader's browser."""

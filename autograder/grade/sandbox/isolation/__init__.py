"""Levels of isolation: one file and one row in `levels.LEVELS` for each."""

"""The text of a broken program: read, changed by edits, and told as a patch."""

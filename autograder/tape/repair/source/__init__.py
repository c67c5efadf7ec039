"""The source of a broken program: parsing, edits, and patches."""

"""Translations of the course's texts: PO files, and functions that look up a text."""

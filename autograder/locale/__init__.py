"""The course's words in other languages: PO files, and what replaces a text by its translation."""

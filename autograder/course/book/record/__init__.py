"""Notebooks and programs, which run once when the book is built, as the blocks of its pages."""

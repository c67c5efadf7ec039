"""Notebooks and programs are run once, when the book is made, and become the blocks of its pages."""

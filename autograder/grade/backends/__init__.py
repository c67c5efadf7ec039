"""Backends that grade submissions: they receive jobs and yield the results."""

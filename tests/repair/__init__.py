"""Repairs: each kind, odd syntax, the search and the corpus."""

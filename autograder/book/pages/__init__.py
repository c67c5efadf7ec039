"""Blocks become HTML, packed pictures, a search index and preview cards."""

"""A Recording in words: the report, its sentences and names."""

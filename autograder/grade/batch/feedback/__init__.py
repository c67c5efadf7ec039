"""Feedback pages: what was right, what was not and what to do next, without scripts and without hidden tests."""

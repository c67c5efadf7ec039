"""Answers that a person reads: in an order that tells nobody's name, with comments that are used again."""

"""Answers that share what few others wrote: evidence for a talk, never a verdict."""

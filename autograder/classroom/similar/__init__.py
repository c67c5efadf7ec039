"""Pairs of unusually similar answers, as evidence for a conversation with the students, not as proof."""

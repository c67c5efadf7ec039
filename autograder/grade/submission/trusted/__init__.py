"""Runs the teacher's own cells in the trusted process, and judges what they find."""

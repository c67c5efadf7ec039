"""Variants of an assignment: other names, numbers, places of the fault and outcomes; proven by running, and graded by their own key."""

"""Variants of an assignment with other names, numbers, faults and outcomes; validated by running their answers."""

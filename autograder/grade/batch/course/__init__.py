"""A course's folder: its settings, its classes, and what each student handed in."""

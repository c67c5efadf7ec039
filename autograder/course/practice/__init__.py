"""Practice beyond the lessons: a quiz before and after, and a review of what was passed, on growing intervals."""

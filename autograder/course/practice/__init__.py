"""Practice beyond the lessons: a quiz before and after the course, and reviews at growing intervals."""

"""A course's rules in one file: due dates, extensions, late penalties, who is excused, what is dropped."""

"""Exchange with learning platforms: collect submissions, report on the class, and return grades."""

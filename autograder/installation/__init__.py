"""Installation: the clone's own environment, the requirements of each command, and another Python for a course.

`bootstrap` runs before any package is installed, and imports only the standard library.
"""

"""Installation: the clone's own environment, the requirements of each command, and another Python for a course.

`bootstrap` and `pip_output` run before any package is installed, and import only the standard library.
"""

"""What has to be installed: the clone's own environment, what each command needs, and another Python for a course.

`bootstrap` and `pip_output` run before anything is installed, and import the standard library alone.
"""

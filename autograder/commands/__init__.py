"""The commands: each module defines the options, the output and the exit code of one or several of them.

`add_to` adds the commands of a module to the parser. The subpackages that do the work are imported when a command runs.
"""

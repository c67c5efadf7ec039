"""The commands: a module for each, or for a few of one kind, with its options, what it prints and its exit code.

Each module adds its verbs to the parser by `add_to`; the work is done in the rooms, which are imported when a command runs.
"""

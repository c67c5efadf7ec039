"""The command line: the installation, the parser, and one module for the options and output of each group of commands.

`add_to` adds the commands of a module to the parser. The subpackages that do the work are imported when a command runs.
"""

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 for success, 1 for a negative result, 2 if the command could not be run."""
    from autograder.cli.parser import main as run_main  # `bootstrap` is imported before the parser's packages exist

    return run_main(arguments)

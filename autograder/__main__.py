"""`python3 -m autograder VERB`: create the environment if it is missing, and run the command in it.

This module may import only the standard library and use only the syntax of Python 3.6, so that an old Python can print
the required version.
"""

import os
import sys

if sys.version_info < (3, 11):
    sys.exit(
        "autograder: this is Python %d.%d; autograder needs 3.11 or later. Run it with a newer one, such as "
        "`python3.12 -m autograder`." % sys.version_info[:2]
    )

# `-m` puts the working folder first, where a user's file such as `uuid.py` would shadow the standard library's.
if sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
    del sys.path[0]

from autograder.cli.bootstrap import ensure_environment  # must come after the version check

ensure_environment(sys.argv[1:])

from autograder.cli import main  # noqa: E402 - exists only inside the environment

sys.exit(main(sys.argv[1:]))

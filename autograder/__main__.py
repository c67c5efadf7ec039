"""`python3 -m autograder VERB`: runs the command, making the environment first where it is missing.

Only the standard library may be imported here, and no syntax newer than Python 3.6: an old Python has to get as far as
the sentence that says which one to use.
"""

import os
import sys

if sys.version_info < (3, 11):
    sys.exit(
        "autograder: this is Python %d.%d; autograder needs 3.11 or later. Run it with a newer one, such as "
        "`python3.12 -m autograder`." % sys.version_info[:2]
    )

# `-m` puts the working folder first, where a file `uuid.py` of the user's would take the place of the standard library's.
if sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(os.path.abspath(__file__))):
    del sys.path[0]

from autograder.installation.bootstrap import ensure_environment  # noqa: E402 - must come after the version check

ensure_environment(sys.argv[1:])

from autograder.cli import main  # noqa: E402 - exists only inside the environment

sys.exit(main(sys.argv[1:]))

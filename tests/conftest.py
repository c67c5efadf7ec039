"""For every test: nothing that a test solves counts as the learner's progress, in this process and in kernels."""

import os
import tempfile
from pathlib import Path

os.environ["AUTOGRADER_PROGRESS"] = str(Path(tempfile.mkdtemp(prefix="autograder-tests-")) / "progress.json")

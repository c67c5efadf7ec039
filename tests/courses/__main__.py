"""`python -m tests.courses DIR` writes all assignments and their hand-ins as one nbgrader course, to try things on."""

import sys
from pathlib import Path

from tests.courses.course_texts import assignments, write_course

write_course(Path(sys.argv[1]), assignments())

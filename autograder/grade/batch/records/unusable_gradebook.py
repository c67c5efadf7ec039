"""What is said of a gradebook that cannot be opened, in SQLite and in PostgreSQL."""

from __future__ import annotations

from sqlalchemy.engine import make_url

from autograder.errors import InputError
from autograder.printable import printable


class UnusableGradebookError(InputError):
    """The gradebook cannot be opened; the message says why, and what to do."""


def why_unusable(gradebook: str, error: Exception) -> str:
    """Returns a sentence on a gradebook, by its URL, and the error with which it was refused; a password is not quoted."""
    url = make_url(gradebook)
    reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
    advice = "Move what stands there away, or wait until no other program uses it"
    if "no such column" in reason:
        advice = "An older nbgrader made it: `nbgrader db upgrade` in the course's folder keeps a copy, and renews it"
    elif url.get_backend_name() != "sqlite":
        advice = "Correct c.CourseDirectory.db_url in nbgrader_config.py, or start the database"
    return f"the gradebook {url.render_as_string()} cannot be used ({printable(reason)}). {advice}"

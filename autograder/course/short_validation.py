"""The *Validate* button of `autograder lab`: nbgrader's run of the notebook, with a short result.

nbgrader 0.9.6 shows the source of every check that did not pass. The checks of a lesson are long and would hide their
messages; here each is shown by its exercise's name, and all exercises that were not attempted share one entry.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from jupyter_server.utils import url_path_join
from nbgrader.server_extensions.validate_assignment import handlers

from autograder.locale.translations import translated


class ShortValidationHandler(handlers.ValidateAssignmentHandler):
    """Handles the button's request; the saved file is validated, and JupyterLab saves it first."""

    def validate_notebook(self, path: str) -> dict[str, Any]:
        """Return nbgrader's answer with short entries."""
        answer: dict[str, Any] = super().validate_notebook(path)
        value = answer["value"]
        if isinstance(value, dict) and "failed" in value:
            value["failed"] = short_entries(value["failed"])
        return answer


def short_entries(failed: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return an entry for each check that did not pass, with its exercise's name; the last one lists exercises not attempted."""
    tried, waiting = [], []
    for entry in failed:
        exercise = re.split(r"\W", entry["raw_error"], maxsplit=1)[0]
        if entry["raw_error"] == translated("{exercise}: not attempted yet", exercise=exercise):
            waiting.append(exercise)
        else:
            tried.append(entry | {"source": exercise} if exercise else entry)
    if waiting:
        title, names = translated("{count} not attempted yet", count=len(waiting)), ", ".join(waiting)
        tried.append({"source": title, "error": escape(names), "raw_error": names})
    return tried


def _load_jupyter_server_extension(app: Any) -> None:
    """Serve the addresses of nbgrader's extension, which must be disabled."""
    web = app.web_app
    web.settings["root_dir"] = app.root_dir
    served = [
        (address, ShortValidationHandler if "validate" in address else known)
        for address, known in handlers.default_handlers
    ]
    web.add_handlers(
        ".*$", [(url_path_join(web.settings["base_url"], address), handler) for address, handler in served]
    )

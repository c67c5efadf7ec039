"""The *Validate* button of `autograder lab`: nbgrader's own run of the notebook, told in a few lines.

nbgrader 0.9.6 repeats the source of every check that did not pass. A lesson's checks are long, so that its answer buries what
they say; here each is named by its exercise, and all that was not attempted stands in one entry.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from jupyter_server.utils import url_path_join
from nbgrader.server_extensions.validate_assignment import handlers

from autograder.locale.translations import translated


class ShortValidationHandler(handlers.ValidateAssignmentHandler):
    """Answers the button; what is validated is the file as it was saved, which JupyterLab does first."""

    def validate_notebook(self, path: str) -> dict[str, Any]:
        """Returns nbgrader's answer with short entries."""
        answer: dict[str, Any] = super().validate_notebook(path)
        value = answer["value"]
        if isinstance(value, dict) and "failed" in value:
            value["failed"] = short_entries(value["failed"])
        return answer


def short_entries(failed: list[dict[str, str]]) -> list[dict[str, str]]:
    """Returns an entry for each check that did not pass, by its exercise's name; what was not attempted is one entry, the last."""
    tried, waiting = [], []
    for entry in failed:
        exercise = re.split(r"\W", entry["raw_error"], maxsplit=1)[0]
        if entry["raw_error"] == translated("{exercise}: not attempted yet", exercise=exercise):
            waiting.append(exercise)
        else:
            tried.append(entry | {"source": exercise} if exercise else entry)
    if waiting:
        names = ", ".join(waiting)
        tried.append(
            {
                "source": translated("{count} not attempted yet", count=len(waiting)),
                "error": escape(names),
                "raw_error": names,
            }
        )
    return tried


def _load_jupyter_server_extension(app: Any) -> None:
    """Serves the addresses of nbgrader's extension, which must be off."""
    web = app.web_app
    web.settings["root_dir"] = app.root_dir
    served = [
        (address, ShortValidationHandler if "validate" in address else known)
        for address, known in handlers.default_handlers
    ]
    web.add_handlers(
        ".*$", [(url_path_join(web.settings["base_url"], address), handler) for address, handler in served]
    )

"""The formats of the platforms' downloads and worksheets, one module each, and the detection of a download's platform."""

from __future__ import annotations

from autograder.classroom.collect.download import Download, DownloadError, Platform
from autograder.classroom.platforms.blackboard import BLACKBOARD, BLACKBOARD_FORM
from autograder.classroom.platforms.canvas import CANVAS, CANVAS_FORM
from autograder.classroom.platforms.gradescope import GRADESCOPE
from autograder.classroom.platforms.moodle import MOODLE, MOODLE_FORM
from autograder.classroom.platforms.nbgrader_folders import NBGRADER
from autograder.classroom.worksheet import PLAIN_FORM

PLATFORMS = {platform.name: platform for platform in (GRADESCOPE, MOODLE, BLACKBOARD, CANVAS, NBGRADER)}
FORMS = {form.name: form for form in (CANVAS_FORM, MOODLE_FORM, BLACKBOARD_FORM, PLAIN_FORM)}


def platform_of(download: Download, name: str) -> Platform:
    """Return the platform of this name, or for "auto" the one whose format most files have. Raise DownloadError if there is none."""
    if name != "auto":
        return PLATFORMS[name]
    counted = {
        name: sum(platform.recognises(file.path) for file in download.files) for name, platform in PLATFORMS.items()
    }
    if counted["gradescope"]:
        return PLATFORMS["gradescope"]  # one file of this name is sufficient
    best = max(counted, key=lambda name: counted[name])  # of equal counts, the first one has the strictest format
    if not counted[best]:
        raise DownloadError(
            f"its file names do not match a known platform ({', '.join(PLATFORMS)}). Download all submissions of one "
            "assignment at once, or make a folder for each student"
        )
    fitting = max((name for name in counted if name != "nbgrader"), key=lambda name: counted[name])
    # every file in a folder has nbgrader's format
    if best == "nbgrader" and 2 * counted[fitting] > len(download.files):
        odd = next(file.path for file in download.files if not PLATFORMS[fitting].recognises(file.path))
        download.notes.append(
            f"{counted[fitting]} of {len(download.files)} files have the format of {fitting}, and {odd} does not. To read each "
            "folder as one student's submission instead, add --from nbgrader"
        )
        best = fitting
    return PLATFORMS[best]

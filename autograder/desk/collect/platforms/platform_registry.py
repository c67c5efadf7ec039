"""The platforms whose downloads are read, and how a download's platform is found out."""

from __future__ import annotations

from autograder.desk.collect.download import Download, DownloadError
from autograder.desk.collect.downloaded_hand_in import Platform
from autograder.desk.collect.platforms.blackboard_download import BLACKBOARD
from autograder.desk.collect.platforms.canvas_download import CANVAS
from autograder.desk.collect.platforms.gradescope_download import GRADESCOPE
from autograder.desk.collect.platforms.moodle_download import MOODLE
from autograder.desk.collect.platforms.nbgrader_folders import NBGRADER

PLATFORMS = {platform.name: platform for platform in (GRADESCOPE, MOODLE, BLACKBOARD, CANVAS, NBGRADER)}


def platform_of(download: Download, name: str) -> Platform:
    """Returns the platform of this name, or for "auto" the one whose form most files have.

    Raises:
        DownloadError: no platform's names are like these.
    """
    if name != "auto":
        return PLATFORMS[name]
    counted = {
        one: sum(platform.recognises(file.path) for file in download.files) for one, platform in PLATFORMS.items()
    }
    if counted["gradescope"]:
        return PLATFORMS["gradescope"]  # one file of this name says it
    best = max(counted, key=lambda one: counted[one])  # of those with the same number the first, which asks for more
    if not counted[best]:
        raise DownloadError(
            f"the names in it are of no platform that is known ({', '.join(PLATFORMS)}). Download all hand-ins of one "
            "assignment at once, or make a folder for each student"
        )
    return PLATFORMS[best]

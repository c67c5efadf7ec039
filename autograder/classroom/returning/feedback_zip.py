"""The feedback pages of students, and a reproducible zip of them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from autograder.grade.batch.classroom import Classroom
from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file

LARGEST_PAGE = 64 * 2**20
WHEN = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that the same pages give the same zip


def feedback_pages(classroom: Classroom, student: str) -> dict[str, bytes]:
    """Return a student's feedback pages by their names; empty without feedback. Submitted files are not included."""
    pages = {}
    for notebook in classroom.notebooks():
        name = f"{notebook.stem}.html"
        try:
            pages[name] = plain_file(classroom.feedback(student) / name, LARGEST_PAGE)
        except (OSError, UnreadableSubmission):
            continue  # nbgrader writes plain files there; ignore anything else
    return pages


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of these files, whose names are UTF-8."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, WHEN)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, files[name])
    return data.getvalue()

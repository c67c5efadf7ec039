"""Canvas' "Download Submissions": one folder of files, whose names contain the student, a late mark and the attachment.

Source: lib/content_zipper.rb of instructure/canvas-lms. Names have the form `{sortable
name}[_LATE]_{user}_{attachment}_{file}`, with the name in lower case and only word characters;
`[LATE_]anon_{id}_{attachment}_{file}` if grading is anonymous; and `…_text.html` or `…_link.html` for a submission
without a file. Names before 2016 contain hyphens, and some contain "late". The entry of a group has the group's name
and the number of one member. The zip contains each person's latest submission, without its time: its entries have the
time of the download. Attachment numbers increase, so of two downloads the later submission has the higher number.

The worksheet is the exported gradebook: a header, an optional row on posting, a row of points, then the students (source:
lib/gradebook_exporter.rb and lib/gradebook_importer.rb of instructure/canvas-lms). The heading of an assignment's column
ends with its id in parentheses; students are identified by ID. `EX` marks an excused student, and `N/A` one to whom the
assignment was not given.
"""

from __future__ import annotations

import datetime
import re

from autograder.classroom.collect.download import DownloadedSubmission, NamedFile, platform_of_names
from autograder.classroom.table_file import TableFile
from autograder.classroom.worksheet import GradeColumn, WorksheetForm, choose_column
from autograder.errors import InputError

TITLE = r"\s*\(\d+\)$"
TOTALS = re.compile(r"(Current|Final|Override|Unposted) (Score|Points|Grade)")
KEEP = frozenset({"EX", "N/A"})


def _grade_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if (ids := table.column("ID")) is None or table.column("Section", "SIS Login ID") is None:
        raise InputError(f"{table.name} is not Canvas' gradebook: it has no columns ID and Section. Export it again")
    titles = {
        number: re.sub(TITLE, "", name).strip()
        for number, name in enumerate(table.header)
        if re.search(TITLE, name) and not TOTALS.search(name)
    }
    number = choose_column(table, titles, assignment, wanted)
    # The row's words are translated, so it is found by its content: the first row without an ID and with a number.
    points = next(
        (row[number] for row in table.rows if not row[ids].strip() and re.match(r"\s*[\d.,]+\s*$", row[number])), ""
    )
    return GradeColumn(number, titles[number], points.strip(), KEEP, "EX")


CANVAS_FORM = WorksheetForm("canvas", _grade_column, lambda *about: f"{about[-1]}_" if about[-1] else "")


NAME = re.compile(
    r"(?s:.*/)?(?:(?P<name>[\w-]+?)_)??(?P<late>(?i:LATE_))?(?:anon_(?P<anonymous>[^\W_]+)|(?P<user>\d+))_"
    r"(?:(?P<attachment>\d+)_(?P<file>[^/\n]+)|(?P<typed>text|link)\.html(?:-\d+)?)"
)


def _submission(key: str, files: list[NamedFile], zone: datetime.tzinfo) -> DownloadedSubmission:
    first, last = files[0][0], max(files, key=lambda file: int(file[0]["attachment"] or 0))[0]
    identity = {"canvas": key} if first["user"] else {"anonymous": key}
    if first["name"]:
        identity["joined"] = first["name"]
    return DownloadedSubmission(
        key=key,
        name=first["name"] or "",
        identities=(identity,),
        files={parts["file"] or f"{parts['typed']}.html": file for parts, file in files},
        sequence=int(last["attachment"] or 0),
        late=first["late"] is not None,
        # Canvas reads the first two numbers between underscores as the user and the attachment (app/models/assignment.rb,
        # infer_comment_context_from_filename).
        upload_name=f"{first['name'] or 'anon'}_{key}_{last['attachment']}" if last["attachment"] else "",
    )


CANVAS = platform_of_names(
    "canvas", "Canvas'", NAME, lambda parts: parts["user"] or f"anon_{parts['anonymous']}", _submission
)

"""Settings for plain `nbgrader` commands, run from this folder; the file's name is nbgrader's own."""

from pathlib import Path

from autograder.course.nbgrader_release import configure
from autograder.grade.batch.csv_export import configure_export

c = get_config()  # noqa: F821 - nbgrader provides it when it loads this file

c.CourseDirectory.course_id = "autograder"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"

# A class's data stays together, in a folder that git ignores. SQLite makes a missing file, not a missing folder.
class_folder = Path(__file__).resolve().parent / "class"
class_folder.mkdir(exist_ok=True)
c.CourseDirectory.submitted_directory = "class/submitted"
c.CourseDirectory.autograded_directory = "class/autograded"
c.CourseDirectory.feedback_directory = "class/feedback"
c.CourseDirectory.db_url = f"sqlite:///{class_folder / 'gradebook.db'}"
c.CsvExportPlugin.to = str(class_folder / "grades.csv")

# Any text on stderr costs a right answer all its points (nbgrader 0.9.6, utils.determine_grade). PyTorch prints this one on
# some processors; name each such warning here, never r".*".
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = r"Could not initialize NNPACK"

configure_export(c)  # names with commas stay in their column, and none is a formula
configure(c)  # the author's cells beside each exercise are removed; the programs handed out for repair are kept

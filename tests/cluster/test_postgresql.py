"""A gradebook in PostgreSQL instead of SQLite: it has the same rows, and other programs that read a gradebook find them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.errors import InputError, UnfinishedError
from autograder.grade.batch.course_folders import read_course
from autograder.grade.batch.gradebook import exclusive_lock
from tests.cluster import postgresql
from tests.cluster.small_class import make_class, without_seconds

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def database():
    """The address of an empty database."""
    if postgresql.programs() is None:
        pytest.skip("PostgreSQL is not installed: `sudo apt install postgresql`")
    with postgresql.server() as address:
        yield address


def run(course, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of autograder on the class."""
    command = [sys.executable, "-m", "autograder", words[0], "small", "--course", str(course), *words[1:]]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)


def in_postgresql(course: Path, database: str) -> Path:
    """Let a course keep its gradebook in a database; returns the course."""
    with open(course / "nbgrader_config.py", "a") as config:
        config.write(f"c.CourseDirectory.db_url = {database!r}\n")
    return course


@pytest.mark.slow
@pytest.mark.usefixtures("isolated")
def test_the_rows_are_those_of_sqlite(tmp_path, database):
    """Graded, graded again unchanged, changed and looked at without writing: as in SQLite. nbgrader and `report` read it."""
    books = {
        "sqlite": make_class(tmp_path / "sqlite", 8),
        "postgresql": in_postgresql(make_class(tmp_path / "postgresql", 8), database),
    }
    seen = {}
    for name, course in books.items():
        first, again = run(course, "grade", "--json"), run(course, "grade", "--json")
        work = course / "submitted" / "student0001" / "small" / "small.ipynb"
        work.write_bytes((course / "source" / "small" / "small.ipynb").read_bytes())
        moved = run(course, "grade", "--dry-run", "--json")
        changed = run(course, "grade", "--json")
        report = run(course, "report", "--json")
        answers = (first, again, moved, changed)
        assert all(done.returncode in (0, 1) for done in (*answers, report)), [
            done.stderr for done in (*answers, report)
        ]
        seen[name] = [without_seconds(json.loads(done.stdout)) for done in answers]
        with Gradebook(read_course(course).gradebook, "small") as book:
            seen[name].append(sorted((one["student"], one["score"]) for one in book.submission_dicts("small")))
            seen[name].append(book.average_assignment_score("small"))
    assert seen["sqlite"] == seen["postgresql"]
    assert not (books["postgresql"] / "gradebook.db").exists()


def test_one_client_at_a_time(tmp_path, database):
    """A second client is refused while the first one lives; another assignment is not, and only lock files stay."""
    for gradebook in (database, f"sqlite:///{tmp_path}/gradebook.db"):
        with exclusive_lock(gradebook, "one"):
            with exclusive_lock(gradebook, "two"):
                pass
            with (
                pytest.raises(UnfinishedError, match="another `autograder grade` is grading 'one'"),
                exclusive_lock(gradebook, "one"),
            ):
                pass
        with exclusive_lock(gradebook, "one"):
            pass
    assert {".lock"} == {path.suffix for path in tmp_path.iterdir()}


def test_a_client_that_is_killed_holds_no_lock(tmp_path):
    """The lock ends with its process, whatever ends that."""
    gradebook = f"sqlite:///{tmp_path}/gradebook.db"
    code = (
        "import sys, os, signal\nfrom autograder.grade.batch.gradebook import exclusive_lock\n"
        f"with exclusive_lock({gradebook!r}, 'one'):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert 0 > subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=120).returncode
    with exclusive_lock(gradebook, "one"):
        pass
    assert {".lock"} == {path.suffix for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("address", "said"),
    [("mysql://me@host/book", "db_url"), ("oracledb://me@host/book", "Can't load plugin"), ("no address", "db_url")],
)
def test_another_database_is_refused_in_a_sentence(tmp_path, address, said):
    """A database without its package, one that SQLAlchemy does not know, and an invalid address."""
    course = in_postgresql(make_class(tmp_path / "course", 0), address)
    with pytest.raises(InputError, match=said):
        read_course(course)


@pytest.mark.parametrize(("gradebook", "said"), [
    ("postgresql+psycopg://me:secret@127.0.0.1:1/book", "Correct c.CourseDirectory.db_url"),
    ("sqlite:////dev/null/gradebook.db", "Not a directory"),
])  # fmt: skip
def test_a_gradebook_that_cannot_be_reached_is_one_sentence(gradebook, said):
    """The server or the folder is missing: the sentence states the error and a solution, without the password."""
    with pytest.raises(InputError) as caught, exclusive_lock(gradebook, "one"):
        pass
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_that_lets_nobody_in_is_one_sentence(database):
    """Another database and another user than there are: the server's own reason is quoted."""
    for wrong in (database.replace("/book?", "/nobook?"), database.replace("//teacher@", "//stranger@")):
        with pytest.raises(InputError, match="does not exist"), exclusive_lock(wrong, "one"):
            pass

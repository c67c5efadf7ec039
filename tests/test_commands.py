"""The end of every command, and the results that a process leaves for a waiting process."""

import argparse
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY, Mock, call
from zoneinfo import ZoneInfo

import pytest

from autograder import view
from autograder.cli import doctor, main
from autograder.cli.doctor import Finding
from autograder.cli.explain_command import ExplainRun, PartialAnswer
from autograder.cli.grade_command import _options
from autograder.cli.parser import _parser
from autograder.cli.release_command import _for_each
from autograder.cli.run_command import run_command
from autograder.course.book.make_book import KEPT
from autograder.errors import InputError
from autograder.grade.batch.assignment import Options
from autograder.grade.submission.teacher.source import GradingPlan
from autograder.grade.validation.mutation_test import MutationReport
from autograder.grade.validation.validate import SourceReport
from autograder.tape.oracle.excerpt import Scope
from tests.stored import assert_stored
from tests.view.conftest import stored


def ended(raised: BaseException, verb: str = "grade") -> int:
    """Return the exit code of a command that raises."""

    def run(_):
        raise raised

    return run_command(argparse.Namespace(run=run), verb)


class PrintedError(InputError):
    """An error below the output of the user's program."""

    words = "3 epochs\n"


@pytest.mark.parametrize(("raised", "code", "said"), [
    (InputError("there is no course here. Name one."), 2, "autograder: there is no course here. Name one.\n"),
    (PrintedError("it ended."), 2, "3 epochs\nautograder: it ended.\n"),
    (
        KeyboardInterrupt(),
        130,
        "\nautograder: grade was interrupted. Grades so far are kept; run the same command with --resume to continue.\n",
    ),
])  # fmt: skip
def test_a_command_that_fails_ends_in_a_sentence_and_a_code(capsys, raised, code, said):
    """Standard output is empty, without a traceback; 130 is a shell's exit code for Ctrl-C."""
    assert code == ended(raised)
    assert ("", said) == capsys.readouterr()


def test_the_command_line_loads_no_package():
    """`--help`, and the sentence on a missing package, also work without any of the extras."""
    code = (
        "import sys, importlib.metadata as metadata\n"
        "known = metadata.packages_distributions()\n"
        "import autograder.cli\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted({one for name in loaded for one in known.get(name, [])} - {'autograd-er', 'setuptools'}))\n"
    )
    assert "[]\n" == subprocess.check_output([sys.executable, "-c", code], text=True)


def test_an_error_of_our_own_code_keeps_its_traceback():
    """An unexpected error is not reduced to a sentence for users."""
    with pytest.raises(ZeroDivisionError):
        ended(ZeroDivisionError())


def test_each_command_has_the_stored_help_and_options(monkeypatch):
    """The help of each command, and the default, number and choices of each of its options, are those that were stored."""
    monkeypatch.setenv("COLUMNS", "100")
    (verbs,) = [action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)]
    for verb, parser in {"autograder": _parser(), **verbs.choices}.items():
        kept = ("option_strings", "dest", "nargs", "const", "default", "type", "choices", "required")
        actions = [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]
        options = [
            re.sub(r" at 0x\w+", "", " ".join(f"{getattr(action, name)}" for name in kept)) for action in actions
        ]
        assert_stored("commands.txt", verb, "\n".join([parser.format_help(), *options]))


def test_a_word_that_is_no_command_is_one_sentence(capsys):
    """Exit code 2, and where to look."""
    with pytest.raises(SystemExit) as left:
        main(["grabe"])
    assert 2 == left.value.code
    assert ["autograder:"] == [line.split()[0] for line in capsys.readouterr().err.splitlines()]


def test_the_last_answer_that_was_left_whole_is_found():
    """An incomplete file does not count."""
    with PartialAnswer() as answer:
        answer.leave(0, "a long first answer")
        answer.leave(1, "the second", "ended")
        assert (1, "the second", "ended") == answer.found()
        answer._file.truncate(5)
        assert answer.found() is None


@pytest.mark.parametrize(("advice", "code"), [("", 0), ("sudo apt install chromium", 1)])
def test_doctor_ends_with_1_if_something_is_missing(monkeypatch, capsys, advice, code):
    """A script can tell from the exit code whether the machine meets every requirement; the advice is printed."""
    monkeypatch.setattr(doctor, "examine", lambda: [Finding("Python", "3.11", ""), Finding("Chromium", "none", advice)])
    assert code == main(["doctor"])
    assert ["Chromium     none", *([f"{'':13}{advice}"] if advice else [])] == capsys.readouterr().out.splitlines()[1:]


@pytest.mark.parametrize("lines", [[], ["02.ipynb: cell 3 differs"]])
def test_release_check_ends_with_1_if_something_is_out_of_date(monkeypatch, capsys, lines):
    """`.ci/run` and pre-commit read the exit code; the cells are listed."""
    monkeypatch.setattr("autograder.course.release.release_differences", lambda: lines)
    assert len(lines) == main(["release", "--check"])
    assert lines == capsys.readouterr().out.splitlines()[:1]


@pytest.mark.parametrize("misjudged", [(), ("t: the wrong answer “adds” passes",)])
def test_validate_source_ends_with_1_if_an_answer_is_misjudged(monkeypatch, misjudged):
    """The exit code is 0 for a source without findings, whose right and wrong answers get their verdicts."""
    reports = [(SourceReport(notebook="n", cells=(), plan=GradingPlan()), MutationReport(misjudged=misjudged))]
    monkeypatch.setattr("autograder.grade.batch.assignment.validate_assignment", lambda *_, **__: reports)
    assert len(misjudged) == main(["validate-source", "first"])


def test_the_members_of_a_group_get_one_variant(monkeypatch, tmp_path):
    """`release --for-each` with the column `group` hands out by group; who has none is a group of one."""
    people = tmp_path / "people.csv"
    people.write_text("student_id,group\nann,red\nben,red\ncy,\n")
    mock = Mock(side_effect=CalledError)
    monkeypatch.setattr("autograder.course.variants.handout.hand_out", mock)
    with pytest.raises(CalledError):
        _for_each(argparse.Namespace(for_each=people, assignment="first", replace=False, for_credit=False), Mock())
    assert {"ann": "red", "ben": "red", "cy": "cy"} == mock.call_args.args[3]


class CalledError(Exception):
    """Raised in the place of a function that a command calls."""


@pytest.mark.parametrize(
    ("words", "function", "given"),
    [
        ("lab", "course.lab.open_lab", call(None, port=None, browser=True, teacher=False, language_code="en")),
        ("lab 02 --port 89 --no-browser --teacher --language zh-CN", "course.lab.open_lab",
         call("02", port=89, browser=False, teacher=True, language_code="zh-CN")),
        ("errors a leaf", "course.learner.error_index.find_error", call("a leaf")),
        ("new d", "course.new_course.make_course", call(Path("d"), ANY)),
        ("release", "course.release.release", call()),
        ("release --check", "course.release.release_differences", call()),
        ("release --seed 0", "course.release.release_variant", call(0)),
        ("release --language zh-CN", "course.release.release_language", call("zh-CN")),
        ("book", "course.book.make_book.make_book",
         call(Path("site"), "en", added=[], address="", repository="", kept=KEPT)),
        ("book --out d --language all --add a.py --add b.py --address A --repository R --afresh", "course.book.make_book.make_book",
         call(Path("d"), "all", added=[Path("a.py"), Path("b.py")], address="A", repository="R", kept=None)),
        ("atlas", "tape.atlas.atlas_text.summary", call()),
        ("atlas exp", "tape.atlas.atlas_text.of_operation", call("exp")),
        ("atlas --json", "tape.atlas.atlas_text.table_text", call()),
        ("atlas --diff 2.6 2.13", "tape.atlas.atlas_text.difference", call("2.6", "2.13")),
        ("demo-class d", "classroom.demo_class.make_demo_class", call(Path("d"))),
        ("collect z first --course c --from moodle --timezone UTC", "classroom.collect.collection.collect",
         call(Path("z"), "first", Path("c"), ANY, "moodle", ZoneInfo("UTC"))),
        ("return first --course c --to csv --worksheet w --out o --column k --scale 9", "classroom.return_grades.return_grades",
         call("first", Path("c"), "csv", Path("w"), Path("o"), ANY, "k", 9.0)),
        ("return first --course c --to csv --worksheet w --out o --scale", "classroom.return_grades.return_grades",
         call("first", Path("c"), "csv", Path("w"), Path("o"), ANY, None, "platform")),
        ("report first --course c --out p.html --json", "classroom.report.report_page.write_report",
         call("first", Path("c"), Path("p.html"), as_json=True)),
        ("read first --course c --sample 3", "classroom.reading.read_answers", call("first", Path("c"), 3)),
        ("harness gradescope first --course c", "classroom.harness_zip.write_harness",
         call(Path("first-gradescope.zip"), "first", Path("c"), isolation="user", hidden_tests="name", visibility="visible",
              requirements=None, on_step=ANY)),
        ("harness gradescope first --course c --out z --isolation process --feedback none --hidden-tests hidden --requirements r",
         "classroom.harness_zip.write_harness",
         call(Path("z"), "first", Path("c"), isolation="process", hidden_tests="none", visibility="hidden",
              requirements=Path("r"), on_step=ANY)),
        ("rehearse first --course c", "grade.batch.assignment.validate_assignment",
         call("first", Path("c"), "bubblewrap", 0, two_processes=False, mutants=40, on_step=ANY)),
        ("validate-source first --course c --isolation process --jobs 3 --two-processes --mutants 0",
         "grade.batch.assignment.validate_assignment",
         call("first", Path("c"), "process", 3, two_processes=True, mutants=0, on_step=ANY)),
    ],
)  # fmt: skip
def test_a_command_passes_its_options_on(monkeypatch, words, function, given):
    """The function that does the work gets what the options say, and else their defaults."""
    module, _, name = function.rpartition(".")
    mock = Mock(side_effect=CalledError)
    monkeypatch.setattr(importlib.import_module(f"autograder.{module}"), name, mock)
    with pytest.raises(CalledError):
        main(words.split())
    assert given == mock.call_args


def test_grade_passes_its_options_on():
    """The defaults, every option, and a preview, which has nothing to resume."""
    every = "--jobs 3 --isolation process --resume --force --accept-source --one-process --two-processes --feedback off"
    assert Options(feedback="name") == _options(_parser().parse_args(["grade", "first"]))
    chosen = _parser().parse_args(["grade", "first", *every.split(), "--cell-seconds", "5"])
    given = dict.fromkeys(("resume", "force", "accept_source", "one_process", "two_processes"), True)
    expected = Options(jobs=3, isolation="process", feedback="off", chosen_limits={"cell_seconds": 5.0}, **given)
    assert expected == _options(chosen)
    assert not _options(_parser().parse_args(["grade", "first", "--resume", "--dry-run"])).resume


@pytest.fixture
def explanation(monkeypatch, tmp_path):
    """A function that returns `explain` with these options, for a program that is not run."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.chdir(tmp_path)

    def of(options: str, explain_program) -> ExplainRun:
        monkeypatch.setattr("autograder.tape.explain_program", explain_program)
        known = argparse.Namespace(arguments=[], shown="a.py")
        chosen = _parser().parse_args(["explain", "-c", "pass", *options.split()], known)
        return ExplainRun(chosen, Mock(PartialAnswer), str(tmp_path))

    return of


@pytest.mark.parametrize(("options", "repair", "seconds", "scope"), [
    ("", True, 60, Scope()),
    ("--no-repair --only-step 2 --budget 5", False, 5, Scope(shown=1)),
    ("--last-step --check-gradients", True, 60, Scope(shown=-1, check_gradients=True)),
])  # fmt: skip
def test_explain_passes_its_options_on(explanation, options, repair, seconds, scope):
    """The search for fixes, the backward call to record, and the comparison with finite differences are as asked for."""
    mock = Mock(side_effect=CalledError)
    with pytest.raises(CalledError):
        explanation(options, mock).run()
    given = mock.call_args.kwargs
    assert (repair, seconds, scope) == (given["repair"], given["budget"].seconds, given["scope"])


@pytest.mark.parametrize(("name", "code"), [("correct", 0), ("silently_wrong", 1)])
@pytest.mark.parametrize("options", ["", "--steps", "--json", "--diff", "--svg s --html h"])
def test_explain_answers_in_the_form_that_was_asked_for(explanation, tmp_path, capsys, name, code, options):
    """One screen, all steps, JSON, or a patch alone, and the files; the exit code is that of the outcome."""
    recording = stored(name)
    assert code == explanation(options, lambda *_, **__: recording).run()
    printed = capsys.readouterr().out
    if options == "--json":
        assert (name.replace("_", "-"), "a.py") == tuple(json.loads(printed)[key] for key in ("outcome", "file"))
    else:
        texts = {"--steps": view.as_text(recording), "--diff": ""}
        assert texts.get(options, view.as_screen(recording)) == printed
    written = {"s": view.as_svg(recording), "h": view.as_html(recording)} if "svg" in options else {}
    assert written == {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}

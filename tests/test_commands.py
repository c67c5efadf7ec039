"""The end of every command, and the results that a process leaves for a waiting process."""

import argparse
import os
import subprocess
import sys

import pytest

from autograder.cli import doctor, main
from autograder.cli.doctor import Finding
from autograder.cli.explain_command import PartialAnswer
from autograder.cli.run_command import run_command
from autograder.errors import InputError


def ended(raised: BaseException, verb: str = "grade") -> int:
    """Return the exit code of a command that raises."""

    def run(_):
        raise raised

    return run_command(argparse.Namespace(run=run), verb)


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (InputError("there is no course here. Name one."), 2, "autograder: there is no course here. Name one.\n"),
        (
            KeyboardInterrupt(),
            130,
            "\nautograder: grade was interrupted. Grades so far are kept; run the same command with --resume to continue.\n",
        ),
    ],
)
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


def test_a_word_that_is_no_command_is_one_sentence(capsys):
    """Exit code 2, and where to look."""
    with pytest.raises(SystemExit) as left:
        main(["grabe"])

    assert 2 == left.value.code
    assert ["autograder:"] == [line.split()[0] for line in capsys.readouterr().err.splitlines()]


def test_the_last_answer_that_was_left_whole_is_found():
    """Another process finds it; an incomplete file does not count."""
    with PartialAnswer() as answer:
        assert answer.found() is None
        answer.leave(0, "a long first answer")
        child = os.fork()
        if not child:
            answer.leave(1, "the second")
            os._exit(0)
        os.waitpid(child, 0)
        assert (1, "the second") == answer.found()

        answer._file.truncate(5)
        assert answer.found() is None


@pytest.mark.parametrize(("advice", "code"), [("", 0), ("sudo apt install chromium", 1)])
def test_doctor_ends_with_1_if_something_is_missing(monkeypatch, capsys, advice, code):
    """A script can tell from the exit code whether the machine meets every requirement; the advice is printed."""
    monkeypatch.setattr(doctor, "examine", lambda: [Finding("Python", "3.11", ""), Finding("Chromium", "none", advice)])
    assert code == main(["doctor"])
    assert ["Chromium     none", *([f"{'':13}{advice}"] if advice else [])] == capsys.readouterr().out.splitlines()[1:]

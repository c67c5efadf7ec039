"""`explain`: one object on standard output, an exit code that a script can use, and pages that are written whole."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import autograder, hear_ctrl_c

BROKEN = """
import torch

def make():
    print("made")
    return torch.tensor([1.0, 2.0], requires_grad=True)

def run():
    w = make()
    a = w.exp()
    a.{write}
    a.sum().backward()
    return {{"w": w.grad}}

def right():
    w = make()
    (w.exp() + 1).sum().backward()
    return {{"w": w.grad}}
"""


@pytest.fixture
def program(tmp_path) -> Path:
    """A module with a write into a saved tensor, and a right function."""
    path = tmp_path / "bug.py"
    path.write_text(BROKEN.format(write="add_(1)"))
    return path


PROGRESS = re.compile(r"autograder: .*: (\d+ s: |.* Looking for fixes\.$)")
"""A line on stderr that a busy machine, which is slow to begin, shows."""


def explain(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process, and in the program's folder: `explain` copies the working folder."""
    return autograder("explain", *words, cwd=Path(str(words[0])).parent)


def test_the_command_is_the_one_that_the_other_tests_run(program):
    """`python -m autograder explain` in a new process has the output and the exit code of the forks below."""
    words = ["explain", f"{program}::run", "--json"]
    real = subprocess.run([sys.executable, "-m", "autograder", *words], capture_output=True, text=True)
    fork = autograder(*words)
    assert (1, real.stdout) == (real.returncode, fork.stdout)


@pytest.mark.thorough
def test_the_last_backward_call_can_be_recorded(tmp_path):
    """`--last-step` records the fourth of four calls, `--only-step 2` the second."""
    loop = "import torch\nw = torch.ones(2, requires_grad=True)\nfor _ in range(4):\n    w.exp().sum().backward()\n"
    (tmp_path / "loop.py").write_text(loop)
    for words, number in ((["--last-step"], 4), (["--only-step", "2"], 2)):
        found = json.loads(explain(tmp_path / "loop.py", *words, "--json", "--no-repair").stdout)["excerpt"]
        assert (found["first"], found["last"]) == (number, number)


def test_a_right_program_ends_with_0(program):
    """No harm, no fix, exit code 0."""
    done = explain(f"{program}::right", "--json")
    told = json.loads(done.stdout)
    assert (0, "correct", [], []) == (done.returncode, told["outcome"], told["harms"], told["fixes"])


@pytest.mark.parametrize(("make", "word"), [
    pytest.param(lambda path: "missing.py", "missing.py", id="missing file"),
    pytest.param(lambda path: f"{path}::nothing", "no function nothing", id="missing function"),
    pytest.param(lambda path: path.write_text("def f(:") and path, "bug.py", id="syntax error"),
    pytest.param(lambda path: path.parent, "", id="a folder"),
])  # fmt: skip
def test_what_cannot_be_run_is_one_sentence(program, make, word):
    """Exit code 2, empty standard output, one line with the problem."""
    done = explain(make(program), "--json")
    assert (2, "") == (done.returncode, done.stdout)
    assert word in done.stderr
    assert 1 == len(done.stderr.strip().splitlines())


def test_page_and_picture_are_written(program, tmp_path):
    """`--html` and `--svg` write files that need no network; the terminal still gets the text."""
    done = explain(f"{program}::run", "--html", tmp_path / "out.html", "--svg", tmp_path / "out.svg")
    assert "a.add_(1)" in done.stdout
    page = (tmp_path / "out.html").read_text()
    assert "ExpBackward0" in page
    assert "://" not in page.replace("http://www.w3.org/", "")
    assert (tmp_path / "out.svg").read_text().startswith("<svg")


def test_a_page_that_cannot_be_written_is_told(program, tmp_path):
    """A folder that is not there is one sentence, not a traceback."""
    done = explain(f"{program}::run", "--html", tmp_path / "no" / "out.html")
    assert 2 == done.returncode
    assert "cannot be written" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_reader_who_has_seen_enough_is_no_fault(program):
    """`explain ... | head` ends without a complaint."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "autograder", "explain", str(program)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.returncode == 2
    assert all(PROGRESS.match(line) for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(
    ("line", "how"), [("os._exit(0)", r"os\._exit\(0\)"), ("os.kill(os.getpid(), signal.SIGSEGV)", "signal SIGSEGV")]
)
def test_a_program_that_ends_python_is_told_and_is_never_correct(tmp_path, line, how):
    """Whatever its exit status, no verdict is printed, and the exit code is 2."""
    path = tmp_path / "leaves.py"
    path.write_text(f"import os, signal, torch\nw = torch.ones(2, requires_grad=True)\n{line}\n")
    done = explain(path, "--json")
    assert (2, "") == (done.returncode, done.stdout)
    assert re.fullmatch(
        rf"autograder: \S+leaves\.py: the program ended the Python process \({how}.*\), so it could not be recorded. .*\n",
        done.stderr,
    )


def test_a_changed_program_that_ends_python_leaves_the_first_answer(tmp_path):
    """With `h = h + 1`, the program goes on to `os._exit`."""
    lines = "h = k = w.exp()\nh += 1\nif h is not k:\n    os._exit(3)\nh.sum().backward()\n"
    (path := tmp_path / "goes_on.py").write_text(f"import os, torch\nw = torch.ones(2, requires_grad=True)\n{lines}")
    done = explain(path)
    assert [1, True] == [done.returncode, "At line 4, `h += 1` overwrites h" in done.stdout]
    assert "a run of it ended the Python process" in done.stdout


def test_ctrl_c_is_one_sentence(tmp_path):
    """Interrupted while the program runs: no traceback."""
    started, path = tmp_path / "started", tmp_path / "long.py"
    path.write_text(f"import time, pathlib\npathlib.Path({str(started)!r}).touch()\nwhile True: time.sleep(0.1)\n")
    command = [sys.executable, "-m", "autograder", "explain", str(path)]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    while not started.exists():
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    out, told = running.communicate(timeout=120)
    *progress, sentence = told.strip().splitlines()
    assert (2, "") == (running.returncode, out)
    assert re.fullmatch(r"autograder: .*long.py, line [23]: the run was interrupted\.", sentence)
    assert all(PROGRESS.match(line) for line in progress), told


def test_a_gradient_too_large_to_list_is_not_called_none(tmp_path):
    """The text says how many numbers it has; the verdict holds for all of them."""
    path = tmp_path / "large.py"
    path.write_text("import torch\nw = torch.ones(5000, requires_grad=True)\n(w * 2).sum().backward()\n")
    assert "w.grad  has 5,000 numbers, too many to list here" in explain(path).stdout


TRAIN = """
import argparse
import torch
from .helpers import spoil

def train(steps=1):
    w = torch.ones(2, requires_grad=True)
    for _ in range(steps):
        h = w.exp()
        spoil(h)
        h.sum().backward()

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    train(parser.parse_args().steps)
"""


def test_a_file_named_like_a_module_of_ours_stops_nothing(program):
    """`python -m` puts the working folder first on the path; a `uuid.py` of the user's there is the program's alone."""
    (program.parent / "uuid.py").write_text("KEY = 1\n")
    command = [sys.executable, "-m", "autograder", "explain", program.name, "--json", "--no-repair"]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True)
    assert "raises-backward" == json.loads(done.stdout)["outcome"], done.stderr


@pytest.fixture
def package(tmp_path) -> Path:
    """A folder with a package of two modules, of which one imports the other relatively and reads its arguments."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "train.py").write_text(TRAIN)
    (folder / "helpers.py").write_text("def spoil(h):\n    h.mul_(2)\n")
    return tmp_path


@pytest.mark.parametrize("words", [["-m", "job.train", "--", "--steps", "1"], ["job/train.py::train", "--json"]])
def test_a_module_of_a_package_runs_with_its_arguments_and_its_neighbours(package, words):
    """The write in the neighboring module is reported with the line of that file."""
    before = words.index("--") if "--" in words else len(words)
    done = autograder("explain", *words[:before], "--no-repair", "--json", *words[before:], cwd=package)
    told = json.loads(done.stdout)
    assert (1, "raises-backward") == (done.returncode, told["outcome"])
    written = [place for harm in told["harms"] for place in harm["mutated_at"]]
    assert [{"file": "job/helpers.py", "line": 2, "text": "h.mul_(2)"}] == written


def test_the_text_names_the_file_of_a_line_that_stands_elsewhere(package):
    """Two files have a line 2; the reader learns which one wrote."""
    done = autograder("explain", "--no-repair", "job/train.py::train", cwd=package)
    assert "At job/helpers.py, line 2, `h.mul_(2)` overwrites h, which ExpBackward0 (line 9)" in done.stdout.replace(
        "\n", " "
    )
    assert "> 2 | h.mul_(2)" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "job.train"], "the following arguments are required: --steps. Pass its arguments after `--`."),
        (["-m", "job.train", "--", "--steps", "x"], "invalid int value: 'x'. Pass its arguments after `--`."),
        (["job/train.py"], "`autograder explain -m PACKAGE.MODULE`"),
        (["-m", "job.missing"], "There is no module job.missing here."),
        (["-m", "job"], "There is no module job.__main__ here."),
        ([], "one of the arguments FILE"),
        (["-m", "job.train", "--steps", "2"], "not allowed with argument -m. Write the program's own arguments after `--`"),
        (["-m", "job.train", "--steps=2"], "explicit argument '2'. Write the program's own arguments after `--`"),
        (["job/train.py", "--steps", "2"], "unrecognized arguments: 2. Write the program's own arguments after `--`"),
        (["job/train.py", "--step", "2"], "arguments: --step 2. Write the program's own arguments after `--`"),
        (["-m", "job.train", "--budget", "long"], "'long' is not a positive number"),
        (["-m", "job.train", "--budget", "0"], "'0' is not a positive number"),
        (["-m", "job.train", "--only-step", "0"], "'0' is not a positive number"),
        (["-m", "job.train", "job/train.py"], "not allowed with"),
    ],
)  # fmt: skip
def test_what_cannot_be_started_says_what_to_type(package, words, said):
    """Exit code 2 and one sentence, which contains argparse's message for the program's user."""
    done = autograder("explain", *words, cwd=package)
    assert (2, "", 1) == (done.returncode, done.stdout, len(done.stderr.strip().splitlines()))
    assert said in done.stderr


def test_a_program_that_only_shows_its_help_is_not_called_right(package):
    """argparse leaves with 0 after its help: the help passes through, and no outcome is named."""
    done = autograder("explain", "-m", "job.train", "--", "--help", cwd=package)
    words, said = done.stderr[: done.stderr.rindex("autograder:")], done.stderr.splitlines()[-1]
    assert (2, "") == (done.returncode, done.stdout)
    assert "usage:" in words
    assert "--steps" in words
    assert "the program ended by itself before any backward call" in said


FAULT = "import torch\nw = torch.ones(2, requires_grad=True)\nh = w.exp()\nh += 1\nh.sum().backward()\n"


def test_a_text_is_explained_from_the_command_line_and_from_standard_input(tmp_path):
    """`-c` and `-` give the same harm, and the program sees its arguments."""
    by_text = autograder(
        "explain",
        "--json",
        "--no-repair",
        "-c",
        f"import sys\nassert sys.argv == ['-c', 'a']\n{FAULT}",
        "--",
        "a",
        cwd=tmp_path,
    )
    command = [sys.executable, "-m", "autograder", "explain", "--json", "--no-repair", "-"]
    by_input = subprocess.run(command, input=FAULT, capture_output=True, text=True, cwd=tmp_path)
    lines = [json.loads(done.stdout)["harms"][0]["mutated_at"][0]["line"] for done in (by_text, by_input)]
    assert [6, 4] == lines


def test_a_file_is_decoded_as_python_decodes_it(tmp_path):
    """A coding line is obeyed; a program that Python could not read is refused by one sentence."""
    path = tmp_path / "latin.py"
    path.write_bytes(f"# -*- coding: latin-1 -*-\nname = 'é'\n{FAULT}".encode("latin-1"))
    assert "raises-backward" == json.loads(explain(path, "--json", "--no-repair").stdout)["outcome"]
    path.write_bytes(f"# -*- coding: nothing -*-\n{FAULT}".encode())
    done = explain(path)
    assert (2, 1) == (done.returncode, len(done.stderr.strip().splitlines()))
    assert "it cannot be decoded as Python source" in done.stderr


@pytest.mark.thorough
def test_a_notebook_is_explained_up_to_a_cell(tmp_path):
    """Its code cells run from the top, magics aside; a cell is chosen by number or id; another is named in one sentence."""
    import nbformat

    cells = [nbformat.v4.new_code_cell(text) for text in ("%matplotlib inline\n" + FAULT.splitlines()[0], "%%bash\nls")]
    cells += [nbformat.v4.new_markdown_cell("The fault"), nbformat.v4.new_code_cell(f"%%time\n{FAULT}", id="fault")]
    path = tmp_path / "lesson.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_code_cell("1 / 0")])))
    for part in ("fault", "3"):
        told = json.loads(explain(f"{path}::{part}", "--json", "--no-repair").stdout)
        assert ("raises-backward", "h += 1") == (told["outcome"], told["harms"][0]["mutated_at"][0]["text"])
    done = explain(f"{path}::9")
    assert (2, 1) == (done.returncode, len(done.stderr.strip().splitlines()))
    assert "has no code cell 9; it has 4." in done.stderr


def test_the_readme_shows_what_the_command_prints(tmp_path):
    """The program of README.md is `docs/bug.py`; written to a file and explained, it gives the answer below it."""
    root = Path(__file__).parents[1]
    readme = (root / "README.md").read_text("utf-8")
    (source,) = re.findall(r"^```python\n(# bug\.py\n.+?)^```", readme, re.M | re.S)
    (shown,) = re.findall(r"^```\n(raises-backward: .+?)^```", readme, re.M | re.S)
    assert (root / "docs" / "bug.py").read_text("utf-8") == source
    (tmp_path / "bug.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "explain", "bug.py"], capture_output=True, text=True, cwd=tmp_path
    )
    runs = r"included: \d+"  # fewer where the time is short
    assert re.sub(runs, "", shown) == re.sub(runs, "", done.stdout), done.stderr


def test_the_long_form_has_every_step(program):
    """`--steps` prints the verdict in full and each step; without it the answer fits on a screen."""
    short, long = (explain(f"{program}::run", *more).stdout for more in ((), ("--steps",)))
    assert len(short.splitlines()) <= 25
    assert "step by step:" in long
    assert "step by step:" not in short

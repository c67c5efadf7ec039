"""The kernel's side: a reader's changes are run in a separate process, and cannot end the kernel."""

from __future__ import annotations

import re
import types

import msgspec
import pytest
import torch

from autograder.check.playground import playground
from autograder.check.playground.arrangement import PlayProgram, arrangements
from autograder.check.playground.play_program import program_from_lines, program_from_text
from autograder.check.playground.playground import Playground, playground_of, saved_mimebundle

TEXT = "w = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w.exp()\nh.mul_(2)\nh.sum().backward()"

RUNS_ON = r"was still running after 1 seconds|Check the lines for an infinite loop"  # the second where the first is not heard in time


class Picture:
    """A stub for the live widget: it stores the scene, and passes on changes."""

    def __init__(self) -> None:
        self.scene: dict = {"place": "here"}

    def observe(self, listener, name: str) -> None:
        """Store the observer of the one trait that the front end sets."""
        assert "arrangement" == name
        self.listener = listener

    def send(self, **request) -> dict:
        """Set the trait as the front end does, and returns the board that came back."""
        self.listener(types.SimpleNamespace(new=request))
        return self.scene["board"]


@pytest.fixture(scope="module")
def program() -> PlayProgram:
    """A program with one write."""
    return program_from_text("doubled", TEXT)


@pytest.fixture
def picture(program):
    """A picture whose program is played with; the process that runs it ends with the test."""
    playground, made = Playground(program), Picture()
    playground.attach(made)
    yield made
    playground.close()


def lines(program: PlayProgram) -> list[dict]:
    """Return the program as given, as the front end sends it."""
    return [msgspec.to_builtins(line) for line in program.as_given.lines]


def test_operations_that_use_several_threads_end_in_the_fork_too():
    """The kernel has used OpenMP's threads, which the fork does not have; a softmax there is done by one thread."""
    softmax = program_from_text("weights", "w = torch.ones(3, 4, requires_grad=True)\nw.softmax(1).max().backward()")
    playground, threads = Playground(softmax), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        playground.warm_up()
        assert ("", "correct") == outcome(playground.scene(softmax.as_given))
    finally:
        torch.set_num_threads(threads)
        playground.close()


def outcome(scene) -> tuple[str, str]:
    """Return the reason why a scene has no run, "" if it has one, and the outcome of the run."""
    return scene.board.problem, scene.outcome


def test_an_arrangement_is_answered_with_its_picture(picture, program):
    """The board has the lines in the order that was sent, the scene their outcome, and each line a key of that scene."""
    sent = lines(program)
    sent[2], sent[3] = sent[3], sent[2]
    board = picture.send(number=1, lines=sent, edits={}, again=False)

    shown = board["number"], picture.scene["outcome"], picture.scene["place"], board["problem"]
    assert (1, "correct", "here", "") == shown
    assert ["0", "1", "3", "2"] == [card["id"] for card in board["cards"]]
    known = {line["key"] for line in picture.scene["programs"][0]["lines"]}
    assert {key for card in board["cards"] for key in card["keys"]} == known

    picture.send(number=2, lines=[], edits={}, again=True)
    assert "raises-backward" == picture.scene["outcome"]


def test_a_line_that_is_moved_in_the_timeline_is_run_at_its_new_place(picture):
    """PyTorch raises where the write is before backward and not after it; moves add up, and end at the program's ends."""
    for by, expected in [(1, "correct"), (5, "correct"), (-1, "raises-backward"), (-9, "raises-forward")]:
        picture.listener(types.SimpleNamespace(new={"number": 1, "moved": "h.mul_(2)", "by": by}))
        assert picture.scene["outcome"] == expected
        if expected != "raises-forward":  # the moved line reads a name before it is bound
            assert picture.scene["timeline"]["title"].startswith(expected)
            assert "h.mul_(2)" in picture.scene["timeline"]["columns"][0]["movable"]


@pytest.mark.parametrize(("text", "problem"), [
    pytest.param("h.mul_(", "was never closed on line 3. Correct that line.", id="syntax"),
    pytest.param("import os; os._exit(3)", "The program ended the process that ran it.", id="exit"),
    pytest.param("import os; os.kill(os.getpid(), 9)", "The program ended the process that ran it.", id="killed"),
    pytest.param("x = [0] * 10**11", "asks for more memory than this machine has", id="memory"),
    pytest.param("while True: pass", RUNS_ON, id="endless", marks=pytest.mark.slow),
    pytest.param("while True: print('y' * 1000)", RUNS_ON, id="prints", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_bad_edit_gives_a_sentence(picture, program, text, problem):
    """A sentence replaces the picture, and the next change is handled as before."""
    board = picture.send(number=1, lines=lines(program), edits={"2": text}, again=False)
    assert re.search(problem, board["problem"])
    assert text == "".join(word for word, _ in board["cards"][2]["lines"][0])

    picture.send(number=2, lines=lines(program), edits={"2": "h = h * 2"}, again=False)
    assert ("correct", "") == (picture.scene["outcome"], picture.scene["board"]["problem"])


def test_what_a_line_prints_goes_nowhere(picture, program, capfd):
    """Megabytes on standard output are dropped, by the kernel's process too."""
    picture.send(number=1, lines=lines(program), edits={"2": "print('x' * 10**7)"}, again=False)
    assert "correct" == picture.scene["outcome"]
    assert ("", "") == capfd.readouterr()


def test_without_fork_the_kernel_runs_it(picture, program, monkeypatch):
    """The result is the same without fork."""
    monkeypatch.setattr(playground, "CAN_FORK", False)
    picture.send(number=1, lines=lines(program), edits={}, again=False)
    assert "raises-backward" == picture.scene["outcome"]


def test_one_process_at_a_time(program):
    """The process of a program ends when another program is played with."""
    one, other = Playground(program), Playground(program_from_text("other", TEXT))
    one.scene(program.as_given)
    first = one._process
    other.scene(other.program.as_given)
    assert not first.is_alive() or first.exitcode is not None
    other.close()


def test_lines_to_be_put_in_order_start_without_a_run():
    """The board begins empty, with every line to choose from and the function to be written; an order gives its answer's text."""
    program = program_from_lines(
        "twice", ["return h", "h = w.exp()"], "def twice(w):", ["w = torch.ones(2, requires_grad=True)"]
    )
    playground = Playground(program)
    board = playground.scene(program.as_given).board
    assert ("def twice(w):\n    ...", 2, 1) == (board.answer, len(board.spare), len(board.cards))
    assert board.problem
    assert not board.is_editable

    ordered = playground.scene(arrangements(program, 300)[1])
    assert ("def twice(w):\n    h = w.exp()\n    return h", "correct") == (ordered.board.answer, ordered.outcome)
    playground.close()


def test_a_function_can_be_played_with():
    """The lines of its body are the cards, and the names of its module are available; a function that is too short is refused."""

    def program():
        return saved_mimebundle

    source = "def program():\n    w = saved_mimebundle\n    return w\n"
    assert {"saved_mimebundle": saved_mimebundle} == playground_of(program, source).names
    assert playground_of(program, "def program():\n    pass\n") is None


def test_a_saved_notebook_holds_the_lines():
    """Without a kernel there is the program as text, escaped."""
    forms = saved_mimebundle(program_from_text("less", "a = 1 < 2\nb = 2"), "here")
    assert '<div class="here"><pre>a = 1 &lt; 2\nb = 2</pre></div>' == forms["text/html"]

"""The kernel's side of an editable picture: it runs each arrangement that a reader makes, and returns the scene."""

from __future__ import annotations

import io
import multiprocessing
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from html import escape
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import torch

from autograder.check.playground.arrangement import (
    Arrangement,
    PlacedCard,
    PlayProgram,
    answer_text,
    executable_text,
    run,
    shifted,
)
from autograder.check.playground.play_program import Unplayable, program_from_function
from autograder.errors import message_of
from autograder.locale.translations import translatable, translated
from autograder.tape import ProgramError
from autograder.tape.recording.schema import Recording
from autograder.view.assets import front_end_words
from autograder.view.draw.timeline import live_scene
from autograder.view.notebook import display_mimebundle, draws_here
from autograder.view.scene.board import Board, BoardCard, highlight
from autograder.view.scene.composition import Scene, SceneFrame, build_scene
from autograder.view.shapes import Drawing, Key


def board_scene(
    program: PlayProgram,
    arrangement: Arrangement,
    recording: Recording | None,
    *,
    number: int = 0,
    problem: str = "",
    is_editable: bool = False,
    place: str = "",
) -> Scene:
    """Return the scene of an arrangement and its board; if it was not run, `problem` gives the reason for the missing picture.

    `number` is that of the request that this answers, and `place` the class name of the page element that a live widget
    replaces.
    """
    scene = build_scene(recording, place=place) if recording else empty_scene(problem, place)
    placed = {line.card for line in arrangement.lines}
    board = Board(
        name=program.name,
        number=number,
        cards=_cards(program, arrangement, is_run=recording is not None),
        spare=[_card(program, PlacedCard(card.id)) for card in program.cards if card.id not in placed],
        edits=arrangement.edits,
        problem=problem,
        header=program.header,
        function_name=program.function_name,
        answer=answer_text(program, arrangement) if program.header else "",
        is_editable=is_editable,
    )
    return msgspec.structs.replace(scene, board=board)


def empty_scene(sentence: str, place: str = "") -> Scene:
    """Return a scene of one frame with the reason for the missing picture."""
    nothing = Drawing(0, 0, 1, 1, [])
    frame = SceneFrame("", sentence, {}, [])
    return Scene(
        id="", outcome="raises-forward", title=sentence, frames=[frame], views=[nothing], memory=nothing, place=place,
        words=front_end_words(),
    )  # fmt: skip


def _cards(program: PlayProgram, arrangement: Arrangement, is_run: bool) -> list[BoardCard]:
    """Return the cards of the program in order, with the keys of the lines as which they were run."""
    cards, line = [], 1
    for placed in arrangement.lines:
        card = _card(program, placed, arrangement.edits.get(placed.card, ""))
        if is_run:
            card.keys = [str(Key("line", line + i)) for i in range(len(card.lines))]
        line += len(card.lines)
        cards.append(card)
    return cards


def _card(program: PlayProgram, placed: PlacedCard, edited: str = "") -> BoardCard:
    """Return a card; for an exercise, the return statement is shown instead of the backward call that is run."""
    card = program.card(placed.card)
    text = edited or card.forms[placed.form].text
    lines = highlight(text if program.header else executable_text(text))
    lines += [[]] * (text.count("\n") + 1 - len(lines))
    return BoardCard(
        card.id, lines, [""] * len(lines), [translated(form.name) for form in card.forms], placed.form, card.is_fixed
    )


ONE_RUN, ALL_RUNS = 1.0, 6.0  # time limits, in seconds, for one run of an arrangement and for all its runs together
MEMORY = 2 << 30  # additional memory, in bytes, that the runs may use

CAN_FORK = sys.platform == "linux"
"""Whether runs use a fork. Otherwise they are in the kernel itself, and only the time of each is limited."""


def _limit_memory() -> None:
    """Limit the memory of this process, so that larger allocations raise MemoryError; without such a limit, only time is limited."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


START = translatable("Put the lines in an order: drag them, or use the buttons next to them.")


class ArrangementRequest(msgspec.Struct):
    """A request from the front end."""

    number: int  # the number of the request, which increases
    lines: tuple[PlacedCard, ...] = ()  # the cards and their forms
    edits: dict[str, str] = {}  # card id → the edited text
    again: bool = False  # whether to start again with the given program
    # a line that the reader moved in the timeline, which is the answer; "" if the program is shown as cards
    moved: str = ""
    by: int = 0  # number of places by which it was moved


class Playground:
    """Runs the arrangements of one program, one at a time; the program may use the values in `names`.

    The runs are in a fork of the kernel, which ends with the kernel, and is replaced if an arrangement ends it.
    """

    _open: Playground | None = None

    def __init__(self, program: PlayProgram, names: dict[str, Any] | None = None):
        self.program, self.names = program, names or {}
        self.place = ""  # class name of the element that the live picture replaces
        self._shown = program.as_given
        self._process: Any = None
        self._connection: Connection | None = None

    def attach(self, picture: Any) -> None:
        """Answer a reader's changes in this live picture."""
        self.place = picture.scene.get("place", "")
        picture.observe(lambda change: self._answer(picture, change.new), "arrangement")

    def scene(self, arrangement: Arrangement, number: int = 0, *, as_timeline: bool = False) -> Scene:
        """Return the scene of an arrangement, with a board or as a timeline; an empty one is not run."""
        options: dict[str, Any] = {"number": number, "is_editable": not self.program.header, "place": self.place}
        if self.program.spare and arrangement.key == self.program.as_given.key:
            return board_scene(self.program, arrangement, None, problem=translated(START), **options)
        if not CAN_FORK:
            return self._run_and_draw(arrangement, options, as_timeline)
        connection = self._connected()
        connection.send_bytes(msgspec.json.encode((arrangement, options, as_timeline)))
        try:
            if connection.poll(ALL_RUNS):
                return msgspec.json.decode(connection.recv_bytes(), type=Scene)
            problem = translated(
                "The run was stopped after {seconds} seconds. Check the lines for an infinite loop.",
                seconds=f"{ALL_RUNS:g}",
            )
        except (EOFError, OSError):
            self._process.join(1)
            problem = translated("The program ended the process that ran it. Undo the last change.")
        self.close()
        return board_scene(self.program, arrangement, None, problem=problem, **options)

    def warm_up(self) -> None:
        """Run the given program in this process, so that the fork need not repeat its imports."""
        self._run_and_draw(self.program.as_given, {}, False)

    def close(self) -> None:
        """Kill the fork; the next arrangement starts a new one."""
        if self._process is not None and self._connection is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = self._connection = None

    def _answer(self, picture: Any, sent: dict[str, Any]) -> None:
        request = msgspec.convert(sent, ArrangementRequest)
        if request.moved:
            self._shown = shifted(self.program, self._shown, request.moved, request.by)
        else:
            self._shown = self.program.as_given if request.again else Arrangement(request.lines, request.edits)
        scene = self.scene(self._shown, request.number, as_timeline=bool(request.moved))
        picture.scene = msgspec.to_builtins(scene)

    def _run_and_draw(self, arrangement: Arrangement, options: dict[str, Any], as_timeline: bool) -> Scene:
        """Return the scene of an arrangement that runs in this process; `options` are those of `board_scene`."""
        try:
            recording = run(self.program, arrangement, self.names, ONE_RUN)
        except ProgramError as error:
            return board_scene(self.program, arrangement, None, problem=message_of(error), **options)
        if as_timeline:
            return live_scene(recording, options["place"], is_playable=True)
        return board_scene(self.program, arrangement, recording, **options)

    def _connected(self) -> Connection:
        """Return the connection to the fork; start it if necessary, and end another program's fork."""
        if self._connection is None or not self._process.is_alive():
            if Playground._open is not None:
                Playground._open.close()
            Playground._open = self
            fork = multiprocessing.get_context("fork")
            self._connection, inside = fork.Pipe()
            self._process = fork.Process(target=self._serve, args=(inside, self._connection), daemon=True)
            self._process.start()
            inside.close()
        return self._connection

    def _serve(self, inside: Connection, outside: Connection) -> None:
        """Answer requests in the fork until the kernel closes its end of the connection."""
        outside.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout = sys.stderr = io.StringIO()  # the kernel's own streams would write into the notebook
        _limit_memory()
        # The fork does not have the kernel's other threads, and OpenMP would wait for them forever.
        torch.set_num_threads(1)
        with suppress(EOFError, OSError):
            while True:
                asked = msgspec.json.decode(inside.recv_bytes(), type=tuple[Arrangement, dict[str, Any], bool])
                inside.send_bytes(msgspec.json.encode(self._run_and_draw(*asked)))


def open_playground(playground: Playground) -> None:
    """Display a program in the playground: live while a kernel runs, as text in a saved notebook and in a terminal."""
    if not draws_here():
        print(saved_mimebundle(playground.program, "")["text/plain"])
        return

    def make_widget(place: str) -> Any:
        from autograder.view.live import PictureWidget

        playground.warm_up()
        playground.place = place
        picture = PictureWidget(scene=msgspec.to_builtins(playground.scene(playground.program.as_given)))
        playground.attach(picture)
        return picture

    display_mimebundle(lambda place: saved_mimebundle(playground.program, place), make_widget)


def saved_mimebundle(program: PlayProgram, place: str) -> dict[str, str]:
    """Return the saved form of a program in the playground: its lines."""
    lines = "\n".join([*filter(None, [program.header]), *(card.forms[0].text for card in program.cards)])
    html = f'<div class="{escape(place)}"><pre>{escape(lines)}</pre></div>'
    return {"text/html": html, "text/plain": lines}


def playground_of(function: Callable[[], Any], source: str) -> Playground | None:
    """Return the playground of a function without arguments; None if its lines cannot be moved."""
    try:
        program = program_from_function(function.__name__, source)
    except Unplayable:
        return None
    space = function.__globals__
    return Playground(program, {name: space[name] for name in function.__code__.co_names if name in space})

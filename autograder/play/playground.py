"""The kernel's side of an editable picture, which answers each arrangement that a reader makes."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import msgspec

from autograder.locale.translations import translatable, translated
from autograder.play.arrangement_worker import ArrangementWorker, judged_scene
from autograder.play.board_scene import board_scene
from autograder.play.cards import Arrangement, PlayProgram
from autograder.play.play_program import Unplayable, program_from_function
from autograder.view.notebook import draws_here, show_forms
from autograder.view.scene.composition import Scene

START = translatable("Put the lines in an order: drag them, or use the buttons next to them.")


class ArrangementRequest(msgspec.Struct):
    """A request from the front end.

    Attributes:
        number: the number of the request, which increases.
        lines: the cards and their forms.
        edits: card id → the edited text.
        again: whether to start again with the given program.
    """

    number: int
    lines: list[dict[str, Any]] = []
    edits: dict[str, str] = {}
    again: bool = False


class Playground:
    """Runs the arrangements of one program, one at a time.

    Args:
        program: the program.
        names: values that it uses.
        place: class name of the element that the live picture replaces.
    """

    def __init__(self, program: PlayProgram, names: dict[str, Any] | None = None, place: str = ""):
        self.program, self.names, self.place = program, names or {}, place
        self._worker = ArrangementWorker(program, self.names)

    def attach(self, picture: Any) -> None:
        """Answer a reader's changes in this live picture."""
        self.place = picture.scene.get("place", "")
        picture.observe(lambda change: self._answer(picture, change.new), "arrangement")

    def scene(self, arrangement: Arrangement, number: int = 0) -> Scene:
        """Return the scene of an arrangement; an empty one is not run."""
        options: dict[str, Any] = {"number": number, "is_editable": not self.program.header, "place": self.place}
        if self.program.spare and arrangement.key == self.program.as_given.key:
            return board_scene(self.program, arrangement, None, problem=translated(START), **options)
        return self._worker.scene(arrangement, options)

    def warm_up(self) -> None:
        """Run the given program in this process, so that the worker need not repeat its imports."""
        judged_scene(self.program, self.program.as_given, self.names, {})

    def _answer(self, picture: Any, sent: dict[str, Any]) -> None:
        request = msgspec.convert(sent, ArrangementRequest)
        made = msgspec.convert({"lines": request.lines, "edits": request.edits}, Arrangement)
        arrangement = self.program.as_given if request.again else made
        picture.scene = msgspec.to_builtins(self.scene(arrangement, request.number))


def open_playground(playground: Playground) -> None:
    """Display a program in the playground: live while a kernel runs, as text in a saved notebook and in a terminal."""
    if not draws_here():
        print(saved_forms(playground.program, "")["text/plain"])
        return

    def alive(place: str) -> Any:
        from autograder.view.live import PictureWidget

        playground.warm_up()
        playground.place = place
        picture = PictureWidget(scene=msgspec.to_builtins(playground.scene(playground.program.as_given)))
        playground.attach(picture)
        return picture

    show_forms(lambda place: saved_forms(playground.program, place), alive)


def saved_forms(program: PlayProgram, place: str) -> dict[str, str]:
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

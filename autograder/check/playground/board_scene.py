"""The scene of an arrangement: the picture of its run with its lines as cards, or the reason for a missing picture."""

from __future__ import annotations

import msgspec

from autograder.check.playground.arrangement import answer_text, as_run
from autograder.check.playground.cards import Arrangement, PlacedCard, PlayProgram
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.view.assets import front_end_words
from autograder.view.keys import Key
from autograder.view.scene.board import Board, BoardCard
from autograder.view.scene.code_tokens import highlight
from autograder.view.scene.composition import Scene, SceneFrame, build_scene
from autograder.view.shapes import Drawing


def board_scene(
    program: PlayProgram,
    arrangement: Arrangement,
    recording: Recording | None,
    *,
    number: int = 0,
    problem: str = "",
    remark: str = "",
    is_editable: bool = False,
    place: str = "",
) -> Scene:
    """Return the scene of an arrangement.

    Args:
        program: the program.
        arrangement: the order and the forms of its cards.
        recording: the recording of its run; None if it was not run, in which case `problem` gives the reason.
        number: the number of the request that this scene answers.
        problem: the reason for a missing picture.
        remark: a sentence next to the verdict.
        is_editable: whether the text of a line may be changed.
        place: class name of the page element that a live widget replaces; "" without a widget.
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
        remark=remark,
        header=program.header,
        function_name=program.function_name,
        answer=answer_text(program, arrangement) if program.header else "",
        is_editable=is_editable,
    )
    return msgspec.structs.replace(scene, board=board)


def empty_scene(sentence: str, place: str = "") -> Scene:
    """Return a scene of one frame with the reason why there is no picture."""
    nothing = Drawing(0, 0, 1, 1, [])
    frame = SceneFrame("", sentence, {}, [])
    return Scene(
        "",
        "raises-forward",
        sentence,
        [],
        [frame],
        [nothing],
        nothing,
        None,
        None,
        0,
        place=place,
        words=front_end_words(),
    )


def _cards(program: PlayProgram, arrangement: Arrangement, is_run: bool) -> list[BoardCard]:
    """Return the cards of the program in order, with the keys of the lines as which they were run."""
    found, line = [], 1
    for placed in arrangement.lines:
        card = _card(program, placed, arrangement.edits.get(placed.card, ""))
        if is_run:
            card.keys = [str(Key("line", line + i)) for i in range(len(card.lines))]
        line += len(card.lines)
        found.append(card)
    return found


def _card(program: PlayProgram, placed: PlacedCard, edited: str = "") -> BoardCard:
    """Return a card; for an exercise, the return statement is shown instead of the backward call that is run."""
    card = program.card(placed.card)
    text = edited or card.forms[placed.form].text
    lines = highlight(text if program.header else as_run(text))
    lines += [[]] * (text.count("\n") + 1 - len(lines))
    return BoardCard(
        card.id, lines, [""] * len(lines), [translated(form.name) for form in card.forms], placed.form, card.is_fixed
    )

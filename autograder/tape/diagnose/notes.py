"""Write the notes of a verdict, apart from those on graph faults: on compilation, warnings, gradients, writes and limits."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autograder.locale.messages import LIST, Message, counted_message, join_messages
from autograder.tape.diagnose.evidence import CompiledEvidence, Evidence
from autograder.tape.diagnose.harms import find_harms, unrecorded_write_notes
from autograder.tape.diagnose.missing_gradients import not_finite, notes_on_zeros
from autograder.tape.diagnose.shown_gradients import notes_on_formulas
from autograder.tape.diagnose.unoptimized import notes_on_parts
from autograder.tape.internals.support import shortcomings
from autograder.tape.observe.state import STEPS
from autograder.tape.observe.tensors import values_text
from autograder.tape.recording.verdict_types import Gradient, Harm, Problem, line_of, note_on_line
from autograder.tape.run.finished_run import is_out_of_time
from autograder.tape.run.storages import CHECKSUMMED


def notes_on_run(evidence: Evidence, harms: tuple[Harm, ...], gradients: dict[str, Gradient]) -> Iterator[str]:
    """Yield the notes on a run with these harms and gradients, in the order of the report."""
    yield from _notes_on_warnings(evidence)
    yield from _notes_on_meanings(gradients)
    yield from _notes_on_gradients(evidence)
    yield from notes_on_zeros(evidence)
    yield from _notes_on_writes(evidence, harms)
    yield from _notes_on_limits(evidence)


def notes_on_compilation(evidence: CompiledEvidence) -> Iterator[str]:
    """Yield notes on the effects of compilation. The outcome is the compiled program's, but lines are the eager run's."""
    error = evidence.eager.runs.plain.problem
    lost_the_check = evidence.runs.plain.error is None and evidence.eager.outcome == "raises-backward"
    if lost_the_check and error is not None:
        yield _what_was_lost(evidence)
        yield Message(
            "compiled.eager_raises|Run eagerly, backward raises {error} in {place}: {message}.",
            error=error.type, place=_line_of(error, evidence), message=_first_sentence(error.message),
        )  # fmt: skip
    elif evidence.runs.plain.error is not None and evidence.eager.outcome == "correct":
        yield Message(
            "compiled.only_compiled_raises|Only the compiled program raises: run eagerly, it reaches its end and its gradients are right."
        )
    elif evidence.outcome == "raises-forward" and evidence.eager.outcome == "raises-backward" and error is not None:
        yield Message(
            "compiled.traced_while_compiling|The compiler traces backward while it compiles the forward, and gets the error "
            "that eager raises in backward, in {place}: {message}.",
            place=_line_of(error, evidence), message=_first_sentence(error.message),
        )  # fmt: skip
    elif evidence.outcome == "silently-wrong" and evidence.eager.outcome == "correct":
        yield Message(
            "compiled.different_gradients|Run eagerly, the gradients are right: the compiled program gives different "
            "ones, and no in-place modification explains the difference."
        )
    yield Message(
        "compiled.how_found|Functions made by torch.compile ran compiled to find the outcome, "
        "and eagerly to find the lines and the right gradients."
    )


def _what_was_lost(evidence: CompiledEvidence) -> str:
    harms = find_harms(evidence.eager)
    places = [place for harm in harms[:1] for place in harm.mutated_at[:2]]
    named = (
        Message("compiled.line|line {line} (`{text}`)", line=place.line, text=place.text)
        if place.file == evidence.file
        else Message("compiled.place|{file}, line {line} (`{text}`)", file=place.file, line=place.line, text=place.text)
        for place in places
    )
    lines = join_messages(named, LIST)
    lost = Message("compiled.lost|Compilation lost eager's version check, and backward silently used the new values.")
    if evidence.outcome == "correct":
        lost = Message(
            "compiled.skips_check|The compiled program skips eager's version check, which was not needed: the gradients are right."
        )
    return Message("compiled.about_lines|{lost} The check is about {lines}.", lost=lost, lines=lines) if lines else lost


def _line_of(error: Problem, evidence: CompiledEvidence) -> str:
    place = error.place(evidence.file)
    return line_of(place, evidence.file) if place else Message("compiled.other_package|code of another package")


def _first_sentence(message: str) -> str:
    return message.partition("\n")[0].partition(". Hint")[0].rstrip(".")


def _notes_on_meanings(gradients: dict[str, Gradient]) -> Iterator[str]:
    """Yield a sentence for each gradient with two correct values: for the computed loss, and for the recorded program."""
    for name, gradient in gradients.items():
        if gradient.ran is not None:
            ran, true = (values_text(torch.tensor(value)) for value in (gradient.ran, gradient.true))
            yield Message(
                "gradient.two_values|{name}.grad has two possible values: {ran} is the gradient of the loss that ran, "
                "with the values written past autograd; {true} is that of the recorded program, without that write, "
                "and is the one called right here.",
                name=name, ran=ran, true=true,
            )  # fmt: skip


def _notes_on_warnings(evidence: Evidence) -> Iterator[str]:
    """Yield PyTorch's warnings about gradients, up to the first sentence."""
    for message, place in evidence.runs.plain.warned.items():
        text = Message(
            "note.pytorch_warned|PyTorch warned here: {message}", message=f"{message.partition('. ')[0].rstrip('.')}."
        )
        yield note_on_line(place, evidence.file, text)


def _notes_on_gradients(evidence: Evidence) -> Iterator[str]:
    plain, error = evidence.runs.plain, evidence.runs.cloned_saves.error
    if evidence.runs.observer.failure is not None:
        yield Message(
            "note.observer_stopped|The observer stopped early: {failure}. Please report it with this program.",
            failure=repr(evidence.runs.observer.failure),
        )
    if (call := evidence.not_finite_call) is not None and not not_finite.found(evidence):
        yield Message(
            "note.not_finite|Backward call number {number} computes nan or inf, also with private copies of the saved "
            "tensors, so no in-place modification causes it. torch.autograd.set_detect_anomaly(True) names the operation "
            "that computes nan.",
            number=call + 1,
        )
    if plain.error is error is None and len(plain.calls) == len(evidence.runs.cloned_saves.calls):
        for place in (place for place, unvisited in evidence.runs.left.graphs.unvisited.items() if unvisited):
            text = Message(
                "note.unvisited_graph|create_graph=True records the graph of the gradients, but no later backward call "
                "goes through it. To differentiate through an update, compute a new tensor, such as `w - lr * grad`, and "
                "the next loss from it: a step of an optimizer and a write under no_grad are not recorded."
            )
            yield note_on_line(place, evidence.file, text)
    yield from notes_on_parts(evidence)
    if not plain.calls and plain.error is None:
        yield Message("note.no_backward|The program never called backward, so its gradients were not checked.")
    if is_out_of_time(evidence.runs.observed.error):
        yield Message(
            "note.no_backward_in_time|The time limit was reached before a backward call was recorded; --budget sets a longer one."
        )
    elif not evidence.repeats:
        yield Message(
            "note.recording_differs|The recorded run gave other gradients, or another error, than the run without "
            "recording, for example because the program is not deterministic. Its steps may not be those of the outcome."
        )
    if plain.error is None and is_out_of_time(error):
        yield Message(
            "note.copies_in_time|The time limit was reached before the run with copies of every saved tensor finished; "
            "the right gradients are not known."
        )


def _notes_on_writes(evidence: Evidence, harms: tuple[Harm, ...]) -> Iterator[str]:
    if evidence.outcome == "raises-backward" and harms and not any(harm.bytes_changed for harm in harms):
        yield Message(
            "note.error_not_needed|The error was not needed: no saved value changed. PyTorch counts in-place "
            "modifications of a storage, not changes of its values."
        )
    blocks = [save.node.place for save in evidence.state.graph.saves if save.checkpointed]
    if evidence.outcome == "silently-wrong" and blocks and not harms:
        text = Message(
            "note.recomputed|This checkpointed block is computed again in backward. If it reads a value that changed in "
            "between, such as an attribute, or draws other random numbers, the gradients are wrong."
        )
        yield note_on_line(blocks[0], evidence.file, text)
    yield from unrecorded_write_notes(evidence)
    yield from notes_on_formulas(evidence)
    if evidence.runs.untracked_effect.note:
        yield evidence.runs.untracked_effect.note


def _notes_on_limits(evidence: Evidence) -> Iterator[str]:
    state, exited = evidence.state, evidence.runs.plain.exited
    yield from shortcomings()
    if exited is not None and (place := exited.place(evidence.file)) is not None:
        text = Message("note.exited|the program exits here with: {status}.", status=exited.message)
        yield note_on_line(place, evidence.file, text)
    if evidence.runs.plain.gave_up_compiling:
        yield Message(
            "note.gave_up_compiling|Compiling took too long, so the outcome is that of the program run eagerly: the "
            "compiled program may skip a check. A second run reuses the code compiled so far; `--budget` gives it "
            "more time."
        )
    yield from _notes_on_excerpt(evidence)
    if evidence.runs.plain.children.called_backward:
        yield Message(
            "note.other_process|Another process that the program started called backward; its gradients were not checked."
        )
    elif evidence.runs.plain.children.pythons:
        yield Message("note.other_program|The program started another Python program, which was not checked.")
    if (scratch := evidence.runs.observer.statements.program.scratch) is not None:
        yield from scratch.notes()
    if evidence.runs.observer.statements.threads:
        yield Message(
            "note.threads|The program started threads; their statements are listed in the order of one run, "
            "and another run may have another order."
        )
    if evidence.outcome == "correct" and state.has_used_inherited:
        yield Message(
            "note.earlier_cell|Backward used a graph that an earlier cell created: modifications between the two cells "
            "are not known. Explain both cells together to include them."
        )
    if state.transforms:
        yield Message(
            "note.torch_func|Functions that torch.func differentiates keep their own saved tensors, which cannot be "
            "copied: a modification of one of them is not detected if no version counter counts it."
        )
    if any(memory.size > CHECKSUMMED for memory in state.memories.all):
        yield Message(
            "note.large_storages|Storages over 64 MiB were only sampled; a small modification of one may have been missed."
        )
    if state.skipped:
        yield Message("note.skipped|Statements of a long run that autograd did not record are not listed.")
    if len(state.finished_steps) >= STEPS:
        yield Message("note.first|Only the first {count} statements are listed one by one.", count=f"{STEPS:,}")


def _notes_on_excerpt(evidence: Evidence) -> Iterator[str]:
    excerpt = evidence.runs.excerpt
    if excerpt is None:
        return
    calls = counted_message(
        excerpt.calls,
        "excerpt.calls.one|The program made {count} backward call",
        "excerpt.calls|The program made {count} backward calls",
    )
    if not excerpt.ended:
        calls = Message(
            "excerpt.time_limit|The time limit was reached before the program's end; backward calls until then: {calls}",
            calls=f"{excerpt.calls:,}",
        )
    shown = Message("excerpt.one_call|call number {first} is recorded line by line.", first=excerpt.first)
    if excerpt.first > excerpt.calls:  # an error ended the program later
        shown = Message("excerpt.after_last|only the statements after the last one are recorded.")
    elif excerpt.last > excerpt.first:
        known = {"first": excerpt.first, "last": excerpt.last}
        shown = Message("excerpt.calls_shown|numbers {first} to {last} are recorded line by line.", **known)
    if is_out_of_time(evidence.runs.observed.error):
        shown = Message("excerpt.none_shown|no call is recorded line by line.")
    if excerpt.checked == excerpt.calls > 1:
        yield Message("excerpt.all_compared|{calls}. All gradients were compared; {shown}", calls=calls, shown=shown)
        return
    if not excerpt.checked:
        yield Message("excerpt.none_compared|{calls}. Gradients were not compared; {shown}", calls=calls, shown=shown)
        return
    if evidence.runs.cloned_saves.has_diverged:
        yield Message(
            "excerpt.rounding|Optimizer steps enlarged rounding errors, so the parameters of the two compared runs "
            "differ after call number {number}.",
            number=excerpt.checked,
        )
    yield counted_message(
        excerpt.checked, "excerpt.compared.one|{calls}. The gradients of the first one were compared; {shown}",
        "excerpt.compared|{calls}. The gradients of the first {count} were compared; {shown}", calls=calls, shown=shown,
    )  # fmt: skip

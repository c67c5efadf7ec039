"""From the evidence of several runs to one verdict."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.compiled_evidence import CompiledEvidence, compiled_notes
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_registry import find_graph_faults, note_of
from autograder.tape.diagnose.harms.harm_registry import find_harms
from autograder.tape.diagnose.harms.unrecorded_write import unrecorded_write_notes
from autograder.tape.diagnose.oracle_answers import checks_of, notes_on_formulas, notes_on_meanings
from autograder.tape.diagnose.shown_gradients import shown_gradients
from autograder.tape.internals.support import shortcomings
from autograder.tape.observe.state import STEPS
from autograder.tape.recording.verdict_types import Harm, Verdict
from autograder.tape.run.budget import budget_in_force


def verdict_of(evidence: Evidence) -> Verdict:
    """Returns what happened, the harms behind it, and each gradient beside the right one; without repairs."""
    harms = find_harms(evidence.explaining) if evidence.outcome != "correct" else ()
    compiled = compiled_notes(evidence) if isinstance(evidence, CompiledEvidence) else ()
    faults, gradients = find_graph_faults(evidence), shown_gradients(evidence)
    notes = (
        *compiled,
        *map(note_of, faults),
        *notes_on_meanings(gradients),
        *_notes_on_gradients(evidence),
        *_notes_on_writes(evidence, harms),
        *_notes_on_limits(evidence),
    )
    return Verdict(
        evidence.outcome, evidence.plain.problem, harms, gradients, notes, checks=tuple(checks_of(evidence)),
        graph_faults=faults, runs=budget_in_force().runs, excerpt=evidence.excerpt,
    )  # fmt: skip


def _notes_on_gradients(evidence: Evidence) -> Iterator[str]:
    plain, error = evidence.plain, evidence.cloned_saves.error
    if evidence.observer.failure is not None:
        yield f"The observer stopped early: {evidence.observer.failure!r}. Please report it with this program."
    if not plain.calls and plain.error is None:
        yield "The program never called backward; nothing here says what it would have given."
    if not evidence.repeats:
        yield "Two runs with the same seed differ: the program is not deterministic, so the right gradient is uncertain."
    if error is not None and plain.error is None:
        yield f"The run with copies of every saved tensor raised {type(error).__name__}; the right gradients are not known."


def _notes_on_writes(evidence: Evidence, harms: tuple[Harm, ...]) -> Iterator[str]:
    if evidence.outcome == "raises-backward" and harms and not any(harm.bytes_changed for harm in harms):
        yield "The error was not needed: no saved value changed. PyTorch counts writes to a storage, not changes of its values."
    yield from unrecorded_write_notes(evidence)
    yield from notes_on_formulas(evidence)
    if evidence.untracked_effect.note:
        yield evidence.untracked_effect.note


def _notes_on_limits(evidence: Evidence) -> Iterator[str]:
    state = evidence.state
    yield from shortcomings()
    if evidence.plain.gave_up_compiling:
        yield (
            "Compiling took too long, so the outcome is that of the program run eagerly: compiled, a check may be lost. "
            "A second try finds what was compiled so far; `--budget` gives it more time."
        )
    yield from _notes_on_excerpt(evidence)
    if evidence.observer.statements.threads:
        yield "The program started threads; their statements are listed as they came in one run, and may come otherwise in another."
    if state.transforms:
        yield (
            "What torch.func differentiates keeps its own saved tensors, which cannot be copied: a write into one of them "
            "that no version counter shows goes unseen."
        )
    if any(memory.sampled for memory in state.memories.all):
        yield "Storages over 64 MiB were only sampled; a small write into one may have been missed."
    if len(state.finished_steps) >= STEPS:
        yield f"Only the first {STEPS:,} statements are listed one by one."


def _notes_on_excerpt(evidence: Evidence) -> Iterator[str]:
    excerpt = evidence.excerpt
    if excerpt is None:
        return
    ended = "The time was up when the program had made" if evidence.plain.is_cut else "The program made"
    many = excerpt.last - excerpt.first
    shown = f"numbers {excerpt.first} to {excerpt.last} are" if many else f"number {excerpt.first} is"
    yield (
        f"{ended} {excerpt.calls:,} backward calls. The gradients of the first {excerpt.checked:,} were compared; "
        f"{shown} recorded line by line."
    )

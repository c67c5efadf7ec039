"""Search for fixes: propose changes of a broken program, run each, and keep those that fix it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from autograder.locale.messages import Message, values_of
from autograder.tape.diagnose.graph_reuse import freed_graph
from autograder.tape.diagnose.shown_gradients import DIFFERENCES
from autograder.tape.diagnose.unknown_outcome import is_foreign
from autograder.tape.oracle.excerpt import BEYOND, WHOLE, Scope, calls_beyond_error
from autograder.tape.recording.verdict_types import Problem, Verdict
from autograder.tape.repair.broken_program import LAST, OTHER, BrokenProgram, Candidate, TriedChange, is_like, join
from autograder.tape.repair.candidates import changed_texts
from autograder.tape.repair.edits import EditableSource, changed_lines
from autograder.tape.repair.trial.intended_run import IntendedRun
from autograder.tape.repair.trial.meaning import Reference, different
from autograder.tape.repair.trial.program_factory import ProgramFactory
from autograder.tape.repair.trial.trial_run import TrialRun, run_trial, same
from autograder.tape.run.budget import current_budget
from autograder.tape.run.entropy import other_random_numbers
from autograder.tape.run.programs.program import Program
from autograder.tape.run.runner import SECONDS, Runner

# share of the remaining time for the run as intended; each trial of a change takes as long
SHARE_OF_INTENDED_RUN = 0.15
PAIRED = 6  # number of sources with one fault less that are searched for a second change
# Ratio of the durations of a proof and a trial, and the share of the remaining time that a proof may take.
PROOF, ROOM = 8, 1 / 3
RESERVE = 0.25  # share of the time that is reserved for proving changes of the computation and suggestions for faults
RUNAWAY_SECONDS = 5  # seconds, and times the longest run, after which a changed program is ended
KEPT = 5  # maximum number of fixes that are offered
CHANGING = 3  # maximum number of changes of the computation that are offered, if there is no fix
STOPPED = Message(
    "trial.stopped|PyTorch stopped the program before its next backward, so there is no loss to compare with."
)
UPDATES = Message("trial.other_value|a leaf ends with a value or gradient other than intended.")
Prove = Callable[[Program, Scope], Verdict]


@dataclass
class Search:
    """A search for fixes of a program in one of its files."""

    factory: ProgramFactory
    verdict: Verdict
    prove: Prove  # returns the verdict on a changed program
    scope: Scope = WHOLE  # the length of each run, and the backward call that a proof records
    later_error: Problem | None = None  # an error of the program itself that follows the intended part
    texts: set[str] = field(default_factory=set)
    tried: int = 0
    has_run_out: bool = False  # whether changes were left when the time was almost over
    # remaining seconds at the start; half of them are reserved for proofs
    time: float = field(default_factory=lambda: current_budget().left)
    longest: float = 0.0  # duration of the longest run in seconds
    changing: list[TriedChange] = field(default_factory=list)
    # the searches in all files of the program, the first of which computes the actual and the intended results
    others: list[Search] = field(default_factory=list)
    # changes of the original source after which another fault is left
    failing: list[TriedChange] = field(default_factory=list)
    failures: dict[str, None] = field(default_factory=dict)  # errors of kinds of fix, each as a sentence

    def __post_init__(self) -> None:
        """Register the original source, and limit the runs if another search has run the program."""
        self.texts.add(self.factory.source)
        if self.others:
            self.scope = self.scope_after(self.others[0].reference.plain)
            self.later_error = self.others[0].later_error
        if self.later_error:
            self.factory = self.factory.until(self.later_error)

    @cached_property
    def reference(self) -> Reference:
        """The actual and the intended results of the program, from two runs unless another search has made these."""
        if self.others and self.others[0] is not self:
            return self.others[0].reference
        plain = self.run(self.factory.source)
        self.scope = self.scope_after(plain)
        intended = self.run_intended(plain)
        later, first = intended.problem, plain.problem
        is_later = first and later and first != later and (plain.in_backward or len(intended.calls) > len(plain.calls))
        if later and is_later and is_foreign(later, intended.in_backward, self.factory.source):
            # This error, which the program has in any case, would end each trial.
            self.later_error, self.factory = later, self.factory.until(later)
            intended = self.run_intended(plain)
        if intended.is_enough(len(intended.calls)):
            self.scope = replace(self.scope, calls=len(intended.calls))
        if len(plain.calls) == 1 and knows_gradients(self.verdict):
            right = right_derivatives(self.verdict).values()
            return Reference(plain, intended, tuple(torch.tensor(gradient, dtype=torch.float64) for gradient in right))
        return Reference(plain, intended, contradicted=self.is_refuted)

    def run_intended(self, plain: TrialRun) -> IntendedRun:
        """Return the run that computes the intended results. If the plain run raised an error, it has limited time."""
        intended = self.intended()
        if plain.error is not None:
            share = SHARE_OF_INTENDED_RUN * current_budget().left
            intended.least, intended.until = len(plain.calls), time.monotonic() + share
        self.run(self.factory.source, intended)
        return intended

    @property
    def is_refuted(self) -> bool:
        """Whether finite differences refuted the gradients of private copies, or only they could tell and did not."""
        return derivatives_answer(self.verdict) == "no" or not knows_gradients(self.verdict)

    def intended(self) -> IntendedRun:
        """Return the run, not yet started, that computes the intended results."""
        message = self.verdict.error_message
        views = "returns multiple views" in message or "created in no_grad mode" in message
        error = self.verdict.error
        at = error.line if error and error.line and error.is_in(self.factory.file) else 0
        text = "".join(self.factory.source.splitlines()[at - 1 : at])
        # With retain_graph=True, the program means the gradients of earlier iterations, unless it carries the loss itself.
        is_kept, loss = "retain_graph=True" in text, text.partition(".backward(")[0].strip()
        reused = (fault.change for fault in self.verdict.graph_faults if fault.kind == freed_graph.name)
        is_reused = any(not is_kept or values_of(change).get("name") == loss for change in reused)
        return IntendedRun(keeps_graph=is_reused or "second time" in message, takes_views_singly=views)

    @cached_property
    def other_reference(self) -> Reference:
        """The actual and the intended results with other random numbers."""
        with other_random_numbers():
            source = self.factory.source
            return Reference(self.run(source), self.run(source, self.intended()))  # type: ignore[arg-type]

    def works_for_other_data(self, change: TriedChange) -> bool:
        """Return whether a change keeps losses and gradients also with other random numbers. Without time, it is assumed."""
        if self.is_time_to_prove():
            return True
        reference = self.other_reference
        with other_random_numbers():
            trial = self.run(change.text)
        return trial.error is None and reference.keeps_losses(trial) and reference.keeps_training(trial)

    def scope_after(self, plain: TrialRun) -> Scope:
        """Return the length of further runs: if an error ended the program, the fixed program may train for hours.

        If several calls precede the error, it includes a second iteration, because Adam's first step hides a wrong gradient.
        """
        calls = calls_beyond_error(plain.error, plain.calls)
        if self.scope.calls is not None or calls is None:
            return self.scope
        return replace(self.scope, calls=calls + min(BEYOND, max(len(plain.calls) - 1, 0)))

    def run(self, text: str, trial: TrialRun | None = None) -> TrialRun:
        """Run a source within the scope, and return its results."""
        before = current_budget().left
        # A change can make a loop endless, or a thread wait forever.
        limit = RUNAWAY_SECONDS + RUNAWAY_SECONDS * self.longest if self.longest and trial is None else SECONDS
        trial = trial or TrialRun()
        trial.most = self.scope.calls
        done = run_trial(Runner(self.factory.make(text), limit, trial.most), trial)
        self.longest = max(self.longest, before - current_budget().left)
        return done

    def verdict_of(self, text: str) -> Verdict:
        """Return the verdict on a changed source."""
        return self.prove(self.factory.make(text), self.scope)

    def find(self, text: str, verdict: Verdict) -> list[TriedChange]:
        """Return the proven fixes of `text` by one change, best first."""
        working, failing = self.try_changes(text, verdict)
        proven: list[TriedChange] = []
        for change in sorted(working, key=lambda trial: (self.needs_differences(trial.text), trial.order)):
            if len(proven) == KEPT or current_budget().is_spent:
                break
            if any(is_like(change.candidate, earlier.candidate) for earlier in proven):
                continue
            seen = self.verdict_of(change.text)
            # A kept graph can have gradients of the parameters before a step.
            if seen.outcome != "correct" or freed_graph.name in {fault.kind for fault in seen.graph_faults}:
                failing.append(change)
            elif self.is_confirmed(seen):
                proven.append(change)
        if len(proven) > 1:
            proven.sort(key=lambda repair: not self.works_for_other_data(repair))
        if text == self.factory.source:
            self.failing = failing
        return proven

    def find_pairs(self) -> list[TriedChange]:
        """Return the fixes that need one more change after a change of `failing`."""
        for failed in self.failing[:PAIRED]:
            self.has_run_out |= self.is_almost_late()
            if self.has_run_out:
                return []
            count = len(self.changing)
            fixes = self.find(failed.text, self.verdict_of(failed.text))
            self.changing[count:] = [join(failed, repair) for repair in self.changing[count:]]
            if fixes:
                return [join(failed, repair) for repair in fixes]
        return []

    def changing_repairs(self) -> list[TriedChange]:
        """Return proven changes that change the computation, each with a description of the difference."""
        proven: list[TriedChange] = []
        for change in sorted(self.changing, key=lambda trial: (trial.is_pair, trial.lines, trial.rank)):
            if len(proven) == CHANGING or current_budget().is_spent:
                break
            is_known = any(is_like(change.candidate, earlier.candidate) for earlier in proven)
            if not is_known and not (proven and change.is_pair):
                seen = self.verdict_of(change.text)
                proven += [change] if seen.outcome == "correct" and not self.is_undecided(seen) else []
        return proven

    def try_changes(self, text: str, verdict: Verdict) -> tuple[list[TriedChange], list[TriedChange]]:
        """Return the changes that run to the end and keep the training, and those that leave another fault."""
        working: list[TriedChange] = []
        failing: list[TriedChange] = []
        for rank, candidate, changed in self.candidates(text, verdict):
            self.has_run_out |= self.is_almost_late()
            if self.has_run_out or (working and self.is_time_to_prove()):
                break
            reference = self.reference  # first, because it sets the length of the runs
            current_budget().stage = f"trying changes ({self.tried} so far)"
            trial = self.run(changed)
            if trial.error is not None:
                is_other = trial.error != reference.plain.error and trial.error.startswith("RuntimeError:")
                # A second change would only take another `detach()` away.
                is_cut = "does not require grad" in trial.error and any(
                    "detach" in edit.text for edit in candidate.edits
                )
                if is_other and not is_cut:
                    failing.append(TriedChange(candidate, changed, 0, rank, LAST))
                continue
            tried = TriedChange(candidate, changed, changed_lines(self.factory.source, changed), rank)
            classified = self.classify(tried, trial)
            if classified:
                (working if classified.keeps_training else self.changing).append(classified)
            if not (classified and classified.keeps_training) and reference.changes_wrong_gradients(trial):
                failing.append(replace(tried, level=LAST))
        return working, failing

    def classify(self, change: TriedChange, trial: TrialRun) -> TriedChange | None:
        """Return the change with a sentence on its difference in computation, or None if no sentence describes it."""
        candidate, reference = change.candidate, self.reference
        if reference.hides_a_leaf(trial):
            return None
        keeps = reference.keeps_losses(trial)
        # If no run provides the correct gradients, rely on the description of the kind.
        is_known = reference.gradients_known and "Can't detach views" not in self.verdict.error_message
        if keeps and reference.keeps_training(trial) and (is_known or not candidate.changes):
            # Without the graph that two calls share, the gradients of modified leaves are those of the part after it.
            truncates = candidate.changes if reference.intended.keeps_graph else None
            named = self.changed_names(change.text, trial)
            # Without a backward call, only the values of variables show whether a change keeps the computation.
            level = 0 if not named else 1 if reference.intended.calls else OTHER
            return replace(change, changes=truncates or named, level=level)
        if candidate.may_silence or (candidate.changes and not reference.keeps_own_gradients(trial)):
            return None
        said = candidate.changes or (None if keeps else candidate.may_change or reference.changed_losses(trial))
        if reference.stopped_early:
            said = said or STOPPED
        elif keeps and not reference.keeps_updates(trial):
            said = said or reference.changed_values(trial) or UPDATES
        return replace(change, changes=said, level=OTHER if keeps else LAST) if said else None

    def changed_names(self, text: str, trial: TrialRun) -> str | None:
        """Return a sentence on the names with other values, except names that differ in each run, such as times."""
        named = self.reference.changed_values(trial)
        return named and self.reference.changed_values(trial, different(trial.values, self.run(text).values))

    def candidates(self, text: str, verdict: Verdict) -> Iterator[tuple[int, Candidate, str]]:
        """Yield each proposed source that has not been tried, with the rank of its kind."""
        program = BrokenProgram(EditableSource(text), verdict, self.factory.file)
        proposed = changed_texts(program)
        if self.is_refuted:
            proposed = iter(sorted(proposed, key=lambda change: self.needs_differences(change[2])))
        for rank, candidate, changed in proposed:
            if changed not in self.texts:
                self.texts.add(changed)
                self.tried += 1
                yield rank, candidate, changed
        self.failures |= dict.fromkeys(program.failures)

    def needs_differences(self, changed: str) -> bool:
        """Return whether only finite differences can prove a change, because it keeps the lines that autograd does not record."""
        if not self.is_refuted:
            return False
        places = (place for harm in self.verdict.harms for place in harm.mutated_at if place.file == self.factory.file)
        before, after = ([line.strip() for line in text.splitlines()] for text in (self.factory.source, changed))
        return all(after.count(line) >= before.count(line) for line in {place.text for place in places})

    def is_confirmed(self, seen: Verdict) -> bool:
        """Return whether the leaves receive the correct gradients of the original program, if only the oracles know these.

        The oracles know the gradients at the end of the run. After several calls and updates, those of a correct
        program differ.
        """
        if self.reference.gradients_known:
            return True
        if self.is_undecided(seen):
            return False
        if len(self.reference.plain.calls) > 1:
            return derivatives_answer(seen) != "no"
        known = right_derivatives(self.verdict)
        return all(near(right, seen.gradients[name].got) for name, right in known.items() if name in seen.gradients)

    def is_undecided(self, seen: Verdict) -> bool:
        """Return whether only finite differences know the correct gradients, and could not decide about a changed program."""
        return not self.reference.gradients_known and derivatives_answer(seen) == "not known"

    def is_time_to_prove(self) -> bool:
        """Return whether to start the proofs: half of the time has passed, or a proof takes a large share of the remaining time."""
        left = current_budget().left
        return left < self.time / 2 or PROOF * self.longest > ROOM * left

    def is_almost_late(self) -> bool:
        """Return whether the remaining time is reserved for proving changes of the computation, or suggestions for faults."""
        first = self.others[0] if self.others else self
        is_any_to_prove = any(search.changing for search in (self, *self.others)) or bool(first.verdict.graph_faults)
        return current_budget().is_spent or (is_any_to_prove and current_budget().left < RESERVE * first.time)


def derivatives_answer(verdict: Verdict) -> str:
    """Return the answer of finite differences: whether each gradient is the derivative of the computed loss."""
    return next((check.answer for check in verdict.checks if check.oracle == DIFFERENCES), "not asked")


def knows_gradients(verdict: Verdict) -> bool:
    """Return whether a verdict knows a correct gradient, unless finite differences did not have to give it."""
    has_gradient = any(gradient.true is not None or gradient.off is not None for gradient in verdict.gradients.values())
    return has_gradient or derivatives_answer(verdict) != "not known"


def right_derivatives(verdict: Verdict) -> dict[str, list[Any] | float]:
    """Return the correct gradients of the verdict by name; of two correct values, that of the computed loss, which a fix keeps."""
    pairs = ((name, of.true if of.ran is None else of.ran) for name, of in verdict.gradients.items())
    return {name: right for name, right in pairs if right is not None}


def near(right: list[Any] | float, got: list[Any] | float | None) -> bool:
    """Return whether a gradient agrees with the right one up to rounding and the step of finite differences. None counts as zeros."""
    wanted = torch.tensor(right, dtype=torch.float64)
    return not wanted.any() if got is None else same(wanted, torch.tensor(got, dtype=torch.float64), near=True)

"""Find fixes of a broken program in one file or several, and note widely copied fixes that have no effect."""

from __future__ import annotations

import ast
import linecache
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

from msgspec.structs import replace

from autograder.locale.messages import Message, counted_message, message_with
from autograder.locale.translations import translatable
from autograder.tape.diagnose.graph_reuse import MODIFIED, freed_graph
from autograder.tape.oracle.excerpt import BEYOND, WHOLE, Scope
from autograder.tape.recording.verdict_types import Fix, Verdict, line_of, note_on_change
from autograder.tape.repair.broken_program import BrokenProgram, TriedChange
from autograder.tape.repair.code_reader import InPlaceWrite, called
from autograder.tape.repair.edits import EditableSource, as_diff, as_fix
from autograder.tape.repair.kinds.aliases import is_no_grad
from autograder.tape.repair.search import PAIRED, Prove, Search
from autograder.tape.repair.trial.meaning import short
from autograder.tape.repair.trial.program_factory import ProgramFactory, factory_of_import
from autograder.tape.run.budget import current_budget
from autograder.tape.run.programs.source_text import is_own_file


def ineffective_workarounds(program: BrokenProgram) -> Iterator[str]:
    """Yield a sentence for each copied fix that the program uses without effect."""
    if program.verdict.outcome not in ("raises-backward", "silently-wrong"):
        return
    seen = figures(program.verdict)
    copied = [(node.lineno, copied_call(program, node)) for node in program.source.nodes(ast.Call)]
    writes = (write for write in program.harmful_writes if write.statement in program.suspects)
    copied += [(write.statement.lineno, copied_write(program, write)) for write in writes]
    yield from (message_with(text, {"line": line, "seen": seen}) for line, text in copied if text is not None)


def copied_call(program: BrokenProgram, call: ast.Call) -> str | None:
    """Return the text on a call that is a copied fix, or None."""
    if called(call) == "allow_mutation_on_saved_tensors":
        return (
            "cure.allow_mutation|Line {line}: allow_mutation_on_saved_tensors() does not detect every in-place "
            "modification (offset views, NumPy): {seen}"
        )
    texts = [ast.unparse(argument) for argument in (*call.args, *call.keywords)]
    if called(call) == "saved_tensors_hooks" and len(call.args) == 2 and re.fullmatch(r"lambda (\w+): \1", texts[0]):
        return "cure.identity_hooks|Line {line}: identity saved-tensor hooks only switch the version check off: {seen}"
    if called(call) == "backward" and "retain_graph=True" in texts and MODIFIED in program.verdict.error_message:
        return "cure.retain_graph|Line {line}: retain_graph=True keeps the graph, and does not restore overwritten values: {seen}"
    return None


def copied_write(program: BrokenProgram, write: InPlaceWrite) -> str | None:
    """Return the text on the copied fix with which a tensor is modified, or None."""
    if "data" in write.path or is_data_alias(program, write):
        if program.verdict.error:
            return (
                "cure.data|Line {line}: a modification through .data does not increment the version counter, and "
                "breaks backward in the same way: {seen}"
            )
        return (
            "cure.data_undetected|Line {line}: a modification through .data does not increment the version "
            "counter, so backward does not detect it."
        )
    around = program.source.enclosing(write.statement, ast.With)
    if any(is_no_grad(item.context_expr) for block in around for item in block.items):
        return (
            "cure.no_grad|Line {line}: torch.no_grad() does not protect saved tensors from the in-place "
            "modification inside it: {seen}"
        )
    return None


def figures(verdict: Verdict) -> str:
    """Return the result of a run in words: the first wrong gradient and the correct one, or that it raises."""
    if verdict.error:
        return Message("cure.still_raises|it still raises.")
    for name, gradient in verdict.gradients.items():
        if gradient.true is not None and gradient.got != gradient.true:
            text = "cure.wrong_gradient|the gradient of {name} is {got} where {true} is right."
            return Message(text, name=name, got=short(gradient.got), true=short(gradient.true))
    return Message("cure.gradient_wrong|a gradient is wrong, and no error is raised.")


def is_data_alias(program: BrokenProgram, write: InPlaceWrite) -> bool:
    """Return whether the modified variable was assigned from `.data`, in the last assignment above if there is one."""
    made = program.source.bindings(write.name)  # last first
    above = [statement for statement in made if statement.lineno < write.statement.lineno][:1] or made
    return any(node.attr == "data" for alias in above for node in program.source.nodes(ast.Attribute, alias.value))


@dataclass(frozen=True)
class Repairs:
    """The fixes of a program."""

    # fixes that keep all losses and gradients, smallest first; if there are none, fixes that change the computation.
    # Use `apply_fix` to apply them.
    fixes: tuple[Fix, ...] = ()
    # attempted fixes in the program that have no effect, each with the resulting gradient, and errors of the search
    warnings: tuple[str, ...] = ()
    reason: str | None = None  # reason why there is no fix; None if there is one, or if none is needed

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes of meaning and the warnings, as sentences for a report."""
        return (*(note_on_change(fix) for fix in self.fixes if fix.changes), *self.warnings)


def find_repairs(factory: ProgramFactory, verdict: Verdict, prove: Prove) -> Repairs:
    """Return the changes of a program's source that fix it, without writing a file. `prove` returns the verdict on a changed program."""
    if verdict.outcome == "correct":
        return Repairs()
    if factory.obstacle:
        return Repairs(reason=factory.obstacle)
    files = editable_files(factory, verdict)
    searches: list[Search] = []
    scope = compared_part(verdict)

    def search_of(file: ProgramFactory, seen: Verdict) -> Search:
        searches.append(Search(file, seen, prove, scope, others=searches))
        return searches[-1]

    # At the end of the block, tracebacks show the user's source again.
    with warnings.catch_warnings(action="ignore"), patch.dict(linecache.cache):
        repairs = find_in_files([search_of(file, verdict) for file in files], search_of)
        program = BrokenProgram(EditableSource(factory.source), verdict, factory.file)
        named = [*ineffective_workarounds(program)] if files[0] is factory else []
    fixes = tuple(_fix(repair) for repair in repairs)
    named += [failure for search in searches for failure in search.failures]
    if fixes and (later := searches[0].later_error) and (place := later.place(factory.original.file)):
        line = line_of(place, factory.original.file)
        text = "fix.later_error|The program also has a later error, which these runs leave out: {error} at {line}."
        named.append(Message(text, error=later.type, line=line))
    return Repairs(fixes, tuple(dict.fromkeys(named)), None if fixes else _why_none(searches))


def _fix(repair: FoundRepair) -> Fix:
    """Return the Fix: the change of its first file, with the changes of other files in `more`."""
    first, *more = (_change(factory, tried) for factory, tried in repair)
    whole = repair[-1][1]
    return replace(
        first,
        proven=whole.keeps_training,
        effect=translatable("same losses and gradients")
        if whole.keeps_training
        else translatable("changes what is computed"),
        changes=whole.changes or "", diff="".join(part.diff for part in (first, *more)), more=tuple(more),
    )  # fmt: skip


def _change(factory: ProgramFactory, tried: TriedChange) -> Fix:
    text = factory.source
    return replace(
        as_fix(text, tried.text, tried.candidate.kind),
        file=factory.imported.file if factory.imported else None,
        diff=as_diff(factory.written(text), factory.written(tried.text), factory.file),
    )


def _why_none(searches: list[Search]) -> str:
    """Return the reason why there is no fix, as a sentence."""
    count = sum(search.tried for search in searches)
    tried = counted_message(count, "fix.tried.one|{count} change was tried", "fix.tried|{count} changes were tried")
    tried = tried if count else Message("fix.none_applies|no known change applies")
    if current_budget().is_spent or any(search.has_run_out for search in searches):
        text = "fix.time_limit|The time limit was reached before a fix was verified: {tried}. Use `--budget` for more time."
        return Message(text, tried=tried)
    error = searches[0].verdict.error
    if error and "inplace" not in error.message.replace("-", "") and "second time" not in error.message:
        script = searches[0].factory.original.file
        place = error.place(script)
        text = "fix.other_error|No fix was found ({tried}): an in-place modification did not cause {error}."
        if place is not None:
            text = "fix.other_error_at|No fix was found ({tried}): an in-place modification did not cause {error} in {place}."
        where = line_of(place, script) if place else ""
        return message_with(text, {"tried": tried, "error": error.type, "place": where})
    if not count:
        return Message("fix.none|No fix was found: {tried}.", tried=tried)
    return counted_message(
        count,
        "fix.none_right.one|No fix was found: {tried}, and it does not give the right gradients or does not keep the values.",
        "fix.none_right|No fix was found: {tried}, and none of them gives the right gradients and keeps the values.",
        tried=tried,
    )


def compared_part(verdict: Verdict) -> Scope:
    """Return the part of a long run that shows whether a change fixes it: a few steps beyond the harmed one."""
    excerpt = verdict.excerpt
    return WHOLE if excerpt is None else Scope(excerpt.last + BEYOND, excerpt.last - 1)


SearchOf = Callable[[ProgramFactory, Verdict], Search]
# A fix that was run: the changed sources of one or two files. The last entry describes the combined effect.
FoundRepair = tuple[tuple[ProgramFactory, TriedChange], ...]


def editable_files(factory: ProgramFactory, verdict: Verdict) -> list[ProgramFactory]:
    """Return a factory for each file that a harm, the error or a graph used again names, and for the program's own.

    That of the modification is the first.
    """
    written = [place.file for harm in verdict.harms for place in harm.mutated_at]
    saved = [harm.saved_at.file for harm in verdict.harms]
    raised = [verdict.error.file] if verdict.error and verdict.error.file else []
    shared = [fault.place.file for fault in verdict.graph_faults if fault.kind == freed_graph.name]
    files = dict.fromkeys([*written, *saved, *shared, *raised, factory.original.file])
    return [source for file in files if (source := factory_in(factory, file)) is not None]


def factory_in(factory: ProgramFactory, file: str) -> ProgramFactory | None:
    """Return the factory for changes of one of the program's files, or None unless each run imports the file again.

    Programs of this process have imported it already, and others may write it.
    """
    program = factory.original
    if file == program.file:
        return factory
    is_written = program.scratch is not None and program.scratch.is_changed(file)
    is_imported = not program.roots and program.space is None and file.endswith(".py") and is_own_file(file)
    return factory_of_import(program, file) if is_imported and not is_written else None


def find_in_files(searches: list[Search], search_of: SearchOf) -> list[FoundRepair]:
    """Return the fixes of the first file that has some by one change, else by two changes of one file, or of two files.

    Without a fix, return changes of the computation.
    """

    def alone(search: Search, fixes: list[TriedChange]) -> list[FoundRepair]:
        return [((search.factory, fix),) for fix in fixes]

    stages: tuple[Callable[[Search], list[FoundRepair]], ...] = (
        lambda search: alone(search, search.find(search.factory.source, search.verdict)),
        lambda search: alone(search, search.find_pairs()),
        lambda search: [*find_in_two(search, search_of)] if len(searches) > 1 else [],
        lambda search: alone(search, search.changing_repairs()),
    )
    return next(filter(None, (stage(search) for stage in stages for search in searches)), [])


def find_in_two(search: Search, search_of: SearchOf) -> Iterator[FoundRepair]:
    """Yield fixes that need a change of this search's file and a change of another file, for the first such change."""
    for failed in search.failing[:PAIRED]:
        search.has_run_out |= search.is_almost_late()
        if search.has_run_out:
            return
        changed, verdict = search.factory.make(failed.text), search.verdict_of(failed.text)
        files = editable_files(ProgramFactory(changed, search.factory.make), verdict)
        others = (file for file in files if file.imported and file.file != search.factory.file)
        seconds = [search_of(factory, verdict) for factory in others]
        fixes = [(second.factory, fix) for second in seconds for fix in second.find(second.factory.source, verdict)]
        if fixes:
            yield from (((search.factory, failed), second) for second in fixes)
            return

"""Prints which mutants of `autograder/tape` the corpus notices, and the programs that notice them.

    python -m tests.mutants_of_tape [--count 100] [--seed 0] [--every]

A mutant is one change in a function that some program executes: a comparison, a condition, a number, an operator or a
dropped call. A mutant is noticed if a program's declared outcome, lines or gradients are no longer found, or if the first fix is
another one. Each mutant runs in a forked process, with the programs that execute the changed block.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import multiprocessing
import random
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

import torch  # noqa: F401 - loaded once, before the processes are forked

from tests.corpus.programs import Program, programs

TAPE = Path(__file__).parents[1] / "autograder" / "tape"
SILENCE = 90.0
"""Seconds after which a program that does not answer has noticed the mutant, and ends it."""
SWAPPED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


class Site(NamedTuple):
    """A place that can be changed: the module, its block, and the place among the sites of the module."""

    module: str
    block: str
    number: int
    told: str


def blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in functions."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in {node: None for function in functions for node in ast.walk(function)}:
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements and not isinstance(node, ast.ClassDef):
                yield statements


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without those of the statements below it."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from ast.walk(child)


def change_of(node: Any) -> Callable[[], None] | None:
    """Return a function that changes a node in place, or None."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        return lambda: node.ops.__setitem__(0, SWAPPED[type(node.ops[0])]())
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in SWAPPED:
        return lambda: setattr(node, "op", SWAPPED[type(node.op)]())
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        return lambda: setattr(node, "value", node.value + 1 if type(node.value) is int else not node.value)
    if isinstance(node, ast.If | ast.While):
        return lambda: setattr(node, "test", ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return lambda: setattr(node, "value", ast.copy_location(ast.Constant(None), node.value))
    return None


def sites(module: str, tree: ast.Module) -> Iterator[tuple[Site, Callable[[], None]]]:
    """Yield the sites of a module, each with the function that changes the tree there."""
    number = 0
    for statements in blocks(tree):
        for node in (node for statement in statements for node in own_nodes(statement)):
            if (change := change_of(node)) is not None:
                told = f"{module}, line {node.lineno}, {type(node).__name__}"  # type: ignore[attr-defined]
                yield Site(module, f"{module}:{statements[0].lineno}", number, told), change
                number += 1


def loaded_with(edit: Callable[[str, ast.Module], None]) -> None:
    """Load the modules of `autograder.tape` with edited syntax trees from now on."""
    plain = SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> Any:
        if not name.startswith("autograder.tape"):
            return plain(loader, name)
        tree = ast.parse(loader.get_data(loader.path))
        edit(name, tree)
        return compile(ast.fix_missing_locations(tree), loader.path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def first_fix(program: Program) -> object:
    """Return the first fix of a broken program as plain data."""
    from tests.corpus.once import repairs_of

    fixes = repairs_of(program).fixes if program.outcome != "correct" else ()
    return (fixes[0].kind, fixes[0].line, fixes[0].after) if fixes else None


def is_judged_right(program: Program) -> bool:
    """Return whether everything that is declared of a program is found."""
    from tests.corpus.judgement import judged

    found = judged(program)
    wrong = found.alarm or found.innocent or False in (found.line, found.saved, found.forecast)
    return found.outcome and found.undisturbed and not wrong


def observe(chosen: list[Program], send: Callable[[object], None]) -> None:
    """Send the blocks that each program executes, and its first fix."""
    hits: set[str] = set()
    builtins._executed = hits.add  # type: ignore[attr-defined]

    def counted(name: str, tree: ast.Module) -> None:
        for statements in list(blocks(tree)):
            [call] = ast.parse(f"_executed({f'{name}:{statements[0].lineno}'!r})").body
            statements.insert(0, ast.copy_location(call, statements[0]))

    loaded_with(counted)
    for program in chosen:
        hits.clear()
        if is_judged_right(program):
            send((program.name, set(hits), first_fix(program), set(hits)))


def try_mutant(site: Site, chosen: list[Program], fixes: dict[str, object], send: Callable[[object], None]) -> None:
    """Send for each program whether it notices the mutant."""

    def mutated(name: str, tree: ast.Module) -> None:
        if name == site.module:
            next(change for one, change in sites(name, tree) if one.number == site.number)()

    loaded_with(mutated)
    for program in chosen:
        try:
            same = is_judged_right(program) and (program.name not in fixes or first_fix(program) == fixes[program.name])
        except BaseException:
            same = False
        send((program.name, same))


def answers(work: Callable[..., None], *arguments: object) -> Iterator[Any]:
    """Yield what a function sends from a forked process, until it ends or is silent for too long."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(*arguments, theirs.send))
    child.start()
    theirs.close()
    try:
        while ours.poll(SILENCE):
            yield ours.recv()
    except EOFError:
        pass
    finally:
        child.kill()
        child.join()


def main() -> None:
    """Print a line for each mutant, then how many are noticed, and how often each program notices one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants_of_tape", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="the number of mutants (100)")
    parser.add_argument("--seed", type=int, default=0, help="chooses the mutants (0)")
    parser.add_argument("--every", action="store_true", help="run all programs, not only until one notices the mutant")
    options = parser.parse_args()
    chosen = {program.name: program for program in programs()}
    seen = {name: rest for name, *rest in answers(observe, [*chosen.values()])}
    executed = set().union(*(every for _, _, every in seen.values()))
    found: list[Site] = []
    for path in sorted(TAPE.rglob("*.py")):
        module = ".".join(path.relative_to(TAPE.parents[1]).with_suffix("").parts).removesuffix(".__init__")
        found += [site for site, _ in sites(module, ast.parse(path.read_bytes()))]
    reached = [site for site in found if site.block in executed]
    print(f"{len(seen)} of {len(chosen)} programs are judged right; {len(reached)} of {len(found)} sites are executed")
    counts: Counter[str] = Counter()
    for site in random.Random(options.seed).sample(reached, min(options.count, len(reached))):
        fixes = {name: fix for name, (recorded, fix, _) in seen.items() if site.block not in recorded}
        asked = [chosen[name] for name, (_, _, every) in seen.items() if site.block in every]
        waiting, by = [one.name for one in asked], []
        for name, same in answers(try_mutant, site, asked, fixes):
            waiting.remove(name)
            by += [] if same else [name]
            if by and not options.every:
                break
        else:
            by += waiting  # the first of them ended the process, or did not answer
        counts.update(by or ["(no program)"])
        print(f"{site.told}: {', '.join(by) or 'not noticed'} ({len(asked)} programs)", flush=True)
    print(*(f"{count:4} {name}" for name, count in counts.most_common()), sep="\n")


if __name__ == "__main__":
    main()

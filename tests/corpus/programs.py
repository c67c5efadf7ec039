"""Reads the corpus: readable Python files in, programs with their declared truth out.

A file in `snippets/` holds several programs, each under a line `# %% NAME · title`; a file in `modules/` is one program
with `make()` and `run()`, in the manner of a bug report. Below the name stands one line for each variant:

    # bug: raises-backward, tensor=hidden
    # fixed: correct

A code line that ends in `# [bug]` belongs to that variant only. `harm` marks a line that writes into what backward
needs, `saves` the line whose operation needs it: `x += 1  # [bug] harm`. All after `# truth` is the reference
formulation, a function `truth()` that computes the right gradients out of place. Marks, declarations and truth are taken
out of what runs, and every line keeps its number, so nothing that is recorded can see what is expected of it.

Options of a declaration: `tensor=NAME` what is written into; `oracle=clone` where finite differences are misled by a
choice of the program (a detached branch, a leaf that is given a new value); `watch=blind` where the harm is outside of what saved-tensor
hooks can see (a write before the save, a stash on ctx).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
OUTCOMES = ("raises-forward", "raises-backward", "correct", "silently-wrong")
CELL = re.compile(r"^# %% ", re.MULTILINE)
DECLARATION = re.compile(rf"^# (?:(?P<variant>\w+): )?(?P<outcome>{'|'.join(OUTCOMES)})(?P<options>(?:, \w+=[\w.]+)*)$")
TAG = re.compile(r" *# (?:\[(?P<variants>[\w ]+)\])? ?(?P<marks>(?:harm|saves)(?: saves)?)?$")
TRUTH = re.compile(r"^# truth$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """One program of the corpus and what is declared of it.

    Attributes:
        name: file, cell and variant, such as "detach/D2" or "boxes_unbind[bug]".
        source: the text that runs, without marks.
        harm, saves: 1-based lines of `source`.
        tensor: the name of the tensor that is written into, or None where no name is meaningful.
        oracle: "clone" where clone-on-save decides instead of finite differences, else None.
        twin: whether another variant of the same text is right, so that the marked lines alone make the difference.
        unseen: whether the harm is out of the sight of saved-tensor hooks.
        truth: the text of the reference formulation, "" where there is none.
        function: "run" for a module, None for a text that runs from top to bottom.
    """

    name: str
    source: str
    outcome: str
    harm: frozenset[int]
    saves: frozenset[int]
    tensor: str | None
    oracle: str | None
    twin: bool
    unseen: bool
    truth: str
    function: str | None

    @property
    def file(self) -> str:
        """A file name of its own, so that a line of this program is never taken for another's."""
        return re.sub(r"\W+", "_", self.name).strip("_") + ".py"


def programs(folder: Path = HERE) -> list[Program]:
    """Returns every program of the corpus under `folder`, snippets first, in the order of the files' names."""
    return list(_programs(folder))


@cache
def _programs(folder: Path) -> list[Program]:
    snippets = [
        program
        for file in sorted((folder / "snippets").glob("*.py"))
        for cell in CELL.split(file.read_text())[1:]
        for program in variants(cell.split(" ")[0], "# %% " + cell, None, prefix=f"{file.stem}/")
    ]
    modules = [
        program
        for file in sorted((folder / "modules").glob("*.py"))
        for program in variants(file.stem, file.read_text(), "run")
    ]
    return snippets + modules


def variants(name: str, text: str, function: str | None, prefix: str = "") -> list[Program]:
    """Returns one program for each declaration in `text`.

    Raises:
        ValueError: the text declares no outcome, or a line is tagged with a variant that is not declared.
    """
    body, truth = (TRUTH.split(text, maxsplit=1) + [""])[:2]
    declared = [match for line in text.splitlines() if (match := DECLARATION.match(line))]
    if not declared:
        raise ValueError(f"{prefix}{name} declares no outcome; write a line such as '# correct' below its title.")
    known = {match["variant"] for match in declared}
    made = []
    for match in declared:
        variant, options = match["variant"], dict(pair.split("=") for pair in match["options"].split(", ")[1:])
        source, marked = take(body, variant, known)
        made.append(
            Program(
                name=f"{prefix}{name}" + (f"[{variant}]" if variant else ""),
                source=source,
                outcome=match["outcome"],
                harm=marked["harm"],
                saves=marked["saves"],
                tensor=options.get("tensor"),
                oracle=options.get("oracle"),
                twin=any(other["outcome"] == "correct" for other in declared if other is not match),
                unseen=options.get("watch") == "blind",
                truth=take(truth, variant, known)[0].strip(),
                function=function,
            )
        )
    return made


def take(text: str, variant: str | None, known: set[str]) -> tuple[str, dict[str, frozenset[int]]]:
    """Returns the text of one variant with its lines in place, and the lines that bear each mark."""
    lines: list[str] = []
    marked: dict[str, set[int]] = {"harm": set(), "saves": set()}
    for number, line in enumerate(text.splitlines(), start=1):
        tag = TAG.search(line)
        only = set((tag["variants"] or "").split()) if tag else set()
        if only - known:
            raise ValueError(f"{line.strip()!r} is for {sorted(only - known)}, but declared are {sorted(known)}.")
        here = not DECLARATION.match(line) and not CELL.match(line) and (not only or variant in only)
        lines.append((line[: tag.start()] if tag else line) if here else "")
        for mark in (tag["marks"] or "").split() if tag and here else ():
            marked[mark].add(number)
    return "\n".join(lines).rstrip() + "\n", {mark: frozenset(found) for mark, found in marked.items()}

"""Which of the teacher's cells a test needs, and which names are the learner's: a backward slice through the source."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import NamedTuple

from autograder.grade.submission.cell_analysis import defined_classes
from autograder.grade.submission.teacher.name_use import NameUse, imported_packages, name_use
from autograder.grade.submission.teacher.source_cells import SourceCell

_BUILTINS = frozenset(dir(builtins)) | {"get_ipython"}


class Needs(NamedTuple):
    """What a test or a teacher's cell needs of the cells before it.

    Attributes:
        cells: the teacher's cells to run first, in order.
        teachers: names that these define; never to be looked up in the submission.
        learners: names that the model solution defines or changes.
        unknown: names that no cell of the source defines.
    """

    cells: tuple[SourceCell, ...]
    teachers: frozenset[str]
    learners: frozenset[str]
    unknown: frozenset[str]


class SetupCells:
    """The slices through one source, each computed once.

    A cell belongs to a test's slice if it binds or may change a name that the test needs, or that another cell of the slice
    needs. A name that the model solution writes into is the learner's, as if the solution had bound it.
    """

    def __init__(self, cells: list[SourceCell]) -> None:
        self._cells = cells
        packages = {name: package for cell in cells for name, package in imported_packages(_text(cell))}
        self._uses = [name_use(_text(cell), tuple(packages.items())) for cell in cells]
        self._answered = list(self._answers())
        self._positions = {id(cell): index for index, cell in enumerate(cells)}
        self._needs: dict[int, Needs] = {}
        self._independent: dict[int, bool] = {}
        self._borrowing: list[SourceCell] | None = None
        self._answers_read = frozenset[str]().union(
            *(use.needs for cell, use in zip(cells, self._uses, strict=True) if cell.is_learners)
        )

    def needs(self, cell: SourceCell) -> Needs:
        """Returns what a cell of the source needs."""
        position = self._positions[id(cell)]
        if position not in self._needs:
            self._needs[position] = self._slice(position)
        return self._needs[position]

    def borrowing_before(self, cell: SourceCell) -> list[SourceCell]:
        """Returns the teacher's cells before this one that some test needs and that use names of the learner's."""
        if self._borrowing is None:
            needed = {id(one): one for test in self._cells if test.kind == "test" for one in self.needs(test).cells}
            found = [one for one in needed.values() if self.needs(one).learners]
            self._borrowing = sorted(found, key=lambda one: self._positions[id(one)])
        return [one for one in self._borrowing if self._positions[id(one)] < self._positions[id(cell)]]

    def is_independent(self, test: SourceCell) -> bool:
        """Returns whether no other test binds or may change what this one uses, or the other way round."""
        position = self._positions[id(test)]
        if position not in self._independent:
            tests = [index for index, cell in enumerate(self._cells) if cell.kind == "test" and index != position]
            self._independent[position] = not any(self._share(position, other) for other in tests)
        return self._independent[position]

    def dependents(self, test: SourceCell) -> list[SourceCell]:
        """Returns the later tests that use a name which this one binds."""
        bound, position = self._use(test).binds, self._positions[id(test)]
        return [
            cell for cell in self._tests() if self._positions[id(cell)] > position and bound & self._use(cell).needs
        ]

    def binders(self, test: SourceCell) -> list[SourceCell]:
        """Returns the earlier tests that bind a name which this one uses, or which the answers use that it rests on."""
        handed_on = self._tests_behind(self._positions[id(test)])
        return [
            cell for cell in self._tests() if test in self.dependents(cell) or self._positions[id(cell)] in handed_on
        ]

    def _tests_behind(self, position: int) -> set[int]:
        """Returns the tests with a value that reaches the cell at a position, straight or by way of other cells.

        What a test imports or defines is not meant: the learner's process runs that part of it anyway.
        """
        found, waiting = set[int](), [position]
        while waiting:
            new = self._latest_binders(waiting.pop()) - found
            found |= new
            waiting += new
        return {index for index in found if self._cells[index].kind == "test"}

    def _latest_binders(self, position: int) -> set[int]:
        """Returns the cells from which a cell has the names that it needs: the nearest before it that bind them."""
        wanted, found = set(self._uses[position].needs), set[int]()
        for index in reversed(range(position)):
            use = self._uses[index]
            bound = use.binds - (use.imports | use.defines if self._cells[index].kind == "test" else frozenset())
            if bound & wanted:
                found.add(index)
                wanted -= use.certain & bound
        return found

    def _tests(self) -> list[SourceCell]:
        return [cell for cell in self._cells if cell.kind == "test"]

    def _answers(self) -> Iterator[frozenset[str]]:
        """Yields the names that each cell makes the learner's: what a model solution binds or writes into.

        An import that a teacher's cell has made before stays the teacher's; one that only the solution makes is the learner's task.
        """
        imported: set[str] = set()
        for cell, use in zip(self._cells, self._uses, strict=True):
            if cell.kind == "teacher":
                imported |= use.imports
            is_answer = cell.is_learners
            yield (use.binds - (use.imports & imported)) | (use.writes - use.imports) if is_answer else frozenset()

    def _use(self, cell: SourceCell) -> NameUse:
        return self._uses[self._positions[id(cell)]]

    def _share(self, one: int, other: int) -> bool:
        (used, touched), (used_there, touched_there) = self._used_by(one), self._used_by(other)
        return bool(touched & used_there or used & touched_there)

    def _used_by(self, position: int) -> tuple[frozenset[str], frozenset[str]]:
        """Returns the names that a test uses, also through the teacher's helpers, and those that it binds or may change."""
        own, helpers = self._uses[position], [self._use(cell) for cell in self.needs(self._cells[position]).cells]
        steady = {name for use in helpers for name in use.defines}
        touched = own.changes | own.passes | {name for use in helpers for name in use.late_changes}
        return own.needs.union(*(use.late for use in helpers)), (touched - steady) | own.binds

    def _slice(self, position: int) -> Needs:
        own = self._uses[position].needs
        if self._cells[position].kind == "test":
            own |= self._given_classes(position)
        late: frozenset[str] = frozenset()
        while True:
            needs = self._walk_back(position, own | late)
            # A helper may be defined before what it uses: that is looked for from the test's place, not from the helper's.
            found = late.union(*(self._use(cell).late for cell in needs.cells))
            if found == late:
                return needs
            late = found

    def _given_classes(self, position: int) -> frozenset[str]:
        """Returns the teacher's classes of which an answer may return an object, whose methods must then be the teacher's."""
        cells = [cell for cell in self._cells[:position] if cell.kind == "teacher" and defined_classes(cell.text)]
        alone = [cell for cell in cells if not self.needs(cell).learners]
        return self._answers_read & frozenset[str]().union(*(defined_classes(cell.text) for cell in alone))

    def _walk_back(self, position: int, own: frozenset[str]) -> Needs:
        open_names, wanted = set(own), set(own)
        teachers, learners, chosen = set[str](), set[str](), set[int]()
        for index in reversed(range(position)):
            use, kind = self._uses[index], self._cells[index].kind
            if self._cells[index].is_learners:
                found = self._answered[index] & wanted
                learners |= found & open_names
            elif kind == "test":
                found = use.certain & wanted
            elif kind == "teacher" and wanted & (use.binds | self._changed(use, wanted, index)):
                chosen.add(index)
                found = use.certain & wanted
                teachers |= use.binds & open_names
                open_names -= use.binds
                wanted |= use.needs
            else:
                continue
            open_names -= found
            wanted -= found - (use.needs if kind == "teacher" else frozenset())
        unknown = {name for name in open_names - _BUILTINS if name.isidentifier()}
        chosen |= self._stars(position) if unknown else set()
        cells = tuple(self._cells[index] for index in sorted(chosen))
        return Needs(cells, frozenset(teachers), frozenset(learners), frozenset(unknown))

    def _changed(self, use: NameUse, wanted: set[str], index: int) -> set[str]:
        """Returns the wanted names that a teacher's cell may change; what is the learner's by then changes in the worker."""
        return {name for name in use.changes & wanted if not self._is_learners(name, index)}

    def _is_learners(self, name: str, position: int) -> bool:
        for index in reversed(range(position)):
            kind = self._cells[index].kind
            if kind == "teacher" and name in self._uses[index].binds:
                return False
            if self._cells[index].is_learners and name in self._answered[index]:
                return True
        return False

    def _stars(self, position: int) -> set[int]:
        """Returns the cells that import `*`, which may bind any name."""
        return {i for i in range(position) if self._cells[i].kind == "teacher" and self._uses[i].has_star}


def _text(cell: SourceCell) -> str:
    if cell.cell.cell_type != "code":
        return ""
    return cell.full if cell.is_learners else cell.text

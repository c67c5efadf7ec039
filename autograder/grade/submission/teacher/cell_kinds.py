"""The kind of each test, which determines the process that judges it, from the text of a source's cells without running them.

A *declarative* test consists of docstrings, imports, definitions and calls of the check family. A *plain data* test
reads plain values by name and calls the student's functions. Every other test is judged *in process*, together with the
student's code. The source's validation runs the model answers and moves a test in process if they fail outside. These
rules detect tests which a model answer passes outside, but which would grade a student's right or wrong answer
differently: they use identity, changes in place, seeds or files.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, TypeGuard

from autograder.check.subject.learner_code import words_of
from autograder.grade.submission.cell_analysis import (
    BUILTINS,
    CellNames,
    assigned,
    cell_names,
    changed_names,
    has_code,
    root,
    statements,
    transformed,
)
from autograder.grade.submission.teacher.source_cells import SourceCell

Kind = Literal["declarative", "plain data", "in process"]
CHECK = "autograder.check"
CHECK_FUNCTIONS = {"check", "check_outcome", "culprit", "passed", "predicted", "predicted_value"}

CALLS = {
    **dict.fromkeys(("id", "eval", "exec", "compile", "__import__", "super", "setattr", "delattr"), "it calls `{name}`"),
    **dict.fromkeys(("system", "popen", "Popen", "check_output", "patch", "mock_open"), "it calls `{name}`"),
    **dict.fromkeys(("assertIs", "assertIsNot"), "it compares the identity of two objects"),
    **dict.fromkeys(("gca", "gcf", "get_fignums", "get_axes", "figure_"), "it looks at a plot of the student's"),
    **dict.fromkeys(
        ("shares_memory", "may_share_memory", "getrefcount", "get_referrers", "getsizeof"),
        "it asks where objects are in memory",
    ),
    **dict.fromkeys(
        ("to_csv", "savefig", "save", "savetxt", "dump", "unlink", "write_text", "write_bytes"), "it writes a file"
    ),
    **dict.fromkeys(
        ("listdir", "scandir", "glob", "iglob", "rglob", "iterdir", "is_file", "is_dir", "isfile", "isdir", "getsize"),
        "it looks for files, which an answer may write",
    ),
}  # fmt: skip
"""Function name → the reason why a test that calls it is judged in process."""
SETTINGS = {
    "chdir", "disable", "enable_grad", "filterwarnings", "no_grad", "putenv", "reset_defaults", "set_default_device",
    "set_default_dtype", "set_default_tensor_type", "set_grad_enabled", "set_num_threads", "set_option", "set_printoptions",
    "set_float_precision", "setcontext", "seterr", "setlocale", "setrecursionlimit", "simplefilter", "use_deterministic_algorithms",
}  # fmt: skip
"""Functions that change a setting of the process, which also affects the student's functions."""
PLAIN_CONTEXTS = {
    "assertRaises", "assertRaisesRegex", "nullcontext", "open", "raises", "redirect_stdout", "subTest", "suppress",
}  # fmt: skip
"""Context managers that do not affect the functions called in them, except for the destination of output."""
ATTRIBUTES = {
    "__code__", "__closure__", "__globals__", "__defaults__", "__kwdefaults__", "__dict__", "__class__", "__wrapped__",
    "base", "data_ptr", "environ", "flags", "grad_fn", "is_leaf", "modules", "rcParams", "stdin", "strides", "user_ns", "_version",
}  # fmt: skip
NAMES = {"__name__", "__qualname__"}
"""Attributes of a student's function that a decorator, or an assignment, makes another than its definition's name."""
MODULES = {
    "ctypes", "doctest", "gc", "mock", "multiprocessing", "pickle", "subprocess", "threading", "tracemalloc", "unittest.mock",
}  # fmt: skip
ITERATORS = {"iter", "map", "zip", "filter", "open", "StringIO", "BytesIO"}
"""Functions that return an iterator or a file, which a test cannot pass to another process."""
HISTORY = {"In", "Out", "_", "__", "___", "_i", "_ih", "_oh", "_dh", "exit", "quit"}
SEEDS = {"default_rng", "seed", "manual_seed", "set_state", "setstate", "set_rng_state"}
RANDOM = re.compile(
    r"rand|rng|shuffle|sample|choice|normal|uniform|permut|dropout|poisson|binomial|multinomial|^(nn|init|seed|fit)$"
)
"""Words in answers that may draw random numbers, or create objects that do."""


DEPENDENT = "it uses a name of an earlier test that is judged in process"


@dataclass(frozen=True)
class CellKind:
    """The way in which one test is judged."""

    kind: Kind  # the kind, from the text
    reason: str = ""  # the reason for judging it in process, as a clause; may be ""
    # the kind if the teacher requires judging it outside the submission's process
    outside_kind: Literal["declarative", "plain data"] = "plain data"
    names: frozenset[str] = frozenset()  # the names that the test needs from the submission
    setup: tuple[int, ...] = ()  # indices of the teacher's cells that have to run before it, in order
    modules: tuple[tuple[str, str], ...] = ()  # names that an answer binds to an installed module, with the module
    uses_tests: frozenset[str] = frozenset()  # ids of earlier tests that bind a name which it uses


def cell_kinds(cells: Sequence[SourceCell], student_files: Iterable[str] = ()) -> dict[str, CellKind]:
    """Return the kind of each test of a source, by its id; `student_files` are those that a student submits and tests read."""
    reader = _NameOwners(cells, frozenset(PurePath(name).name for name in student_files))
    kinds = {cell.id: reader.kind(index) for index, cell in enumerate(cells) if cell.kind == "test"}
    inside = with_dependents(kinds, (name for name, kind in kinds.items() if kind.kind == "in process"))
    for name in inside:
        if kinds[name].kind != "in process":
            kinds[name] = replace(kinds[name], kind="in process", reason=DEPENDENT)
    for kind in list(kinds.values()):
        for name in kind.uses_tests if kind.kind == "plain data" else ():
            if kinds[name].kind == "declarative":
                kinds[name] = replace(kinds[name], kind="plain data", outside_kind="plain data")
    return kinds


def with_dependents(kinds: dict[str, CellKind], tests: Iterable[str]) -> frozenset[str]:
    """Return the ids of these tests and of all tests that use a name that one of them binds."""
    names = set(tests)
    for name, kind in kinds.items():  # in order, because a test uses names of earlier tests
        names |= {name} if kind.uses_tests & names else set()
    return frozenset(names)


class _NameOwners:
    """The cells of a source, and the owners of the names that tests use."""

    def __init__(self, cells: Sequence[SourceCell], student_files: frozenset[str]) -> None:
        self.cells = cells
        self.names = [cell_names(_text(cell)) for cell in cells]
        answers = [names for cell, names in zip(cells, self.names, strict=True) if cell.is_answer]
        teachers = [names for cell, names in zip(cells, self.names, strict=True) if cell.kind == "teacher"]
        self.answered = frozenset[str]().union(*(names.binds for names in answers))
        self.read_late = frozenset[str]().union(*(names.called for names in answers))
        self.classes = frozenset[str]().union(*(names.classes for names in answers))
        self.given = frozenset[str]().union(*(names.binds for names in teachers))
        self.files = student_files | {text for cell in cells if cell.is_answer for text in _file_names(cell.full)}

    def owner(self, name: str, before: int) -> int | None:
        """Return the index of the last earlier cell that binds a name; an answer also owns the objects that it changes."""
        for index in reversed(range(before)):
            names = self.names[index]
            if name in names.binds or (self.cells[index].is_answer and name in names.changes):
                return index
        return None

    def kind(self, index: int) -> CellKind:
        cell, names = self.cells[index], self.names[index]
        setup, tests, students = set[int](), set[str](), set[str]()
        setup_reason = self._collect(names.needs, index, setup, tests, students)
        reason = self._needs_process(cell, names) or setup_reason
        setup |= self._settings(index)
        modules = self._modules(students, index)
        reason = reason or self._students_reason(cell, names, students - modules.keys(), index)
        declared = self._is_declarative(cell, index) and not students - modules.keys()
        kind: Literal["declarative", "plain data"] = "declarative" if declared else "plain data"
        reason = None if declared else reason
        return CellKind(
            "in process" if reason else kind,
            reason or "",
            kind,
            frozenset(students),
            tuple(sorted(setup)),
            tuple(sorted(modules.items())),
            frozenset(tests),
        )

    def _collect(
        self, wanted: Collection[str], before: int, setup: set[int], tests: set[str], students: set[str]
    ) -> str | None:
        """Sort names by their owners; return the reason for judging in process if a teacher's cell uses the student's names."""
        reason: str | None = None
        for name in sorted(wanted):
            index = self.owner(name, before)
            if index is None:
                students |= {name} - self.names[before].inner
            elif self.cells[index].is_answer:
                students.add(name)
            elif self.cells[index].kind == "test":
                tests.add(self.cells[index].id)
                # The teacher's cells that the earlier test needs have already run.
            elif index not in setup:
                for needed in [index, *self._changing(self.names[index].binds, index, before)]:
                    reason = reason or self._collect_setup(needed, before, setup, tests, students)
        return reason

    def _collect_setup(
        self, index: int, before: int, setup: set[int], tests: set[str], students: set[str]
    ) -> str | None:
        """Add a teacher's cell and all that it needs; return the reason for judging in process if it uses the student's names."""
        if index in setup:
            return None
        setup.add(index)
        used = self.names[index]
        inner = self._collect(used.reads - BUILTINS, index, setup, tests, students)
        late = self._collect(used.late - BUILTINS, before, setup, tests, students)
        if at_once := {name for name in used.reads - BUILTINS if self._is_students(name, index)}:
            return f"it needs the teacher's cell that uses `{min(at_once)}` of the student's"
        return inner or late

    def _is_students(self, name: str, before: int) -> bool:
        index = self.owner(name, before)
        return index is not None and self.cells[index].is_answer

    def _changing(self, binds: frozenset[str], after: int, before: int) -> Iterator[int]:
        """Yield the teacher's cells that change an object of these names."""
        for index in range(after + 1, before):
            if self.cells[index].kind == "teacher" and self.names[index].changes & binds:
                yield index

    def _settings(self, before: int) -> set[int]:
        """Return the teacher's cells that call a function of a module for its effect, such as a seed, a style or an option."""
        lines, imported = set[int](), set[str]()
        for index in range(before):
            imported |= self.names[index].imports.keys()
            reads = self.names[index].reads - BUILTINS
            if self.cells[index].kind != "teacher" or any(self._is_students(name, index) for name in reads):
                continue
            if _calls_for_effect(_text(self.cells[index]), imported):
                lines.add(index)
                self._collect(reads, index, lines, set(), set())
        return lines

    def _modules(self, students: set[str], before: int) -> dict[str, str]:
        """Return the student's names that the model binds to a module, or to a part of one."""
        owners = {name: index for name in students if (index := self.owner(name, before)) is not None}
        imports = {name: self.names[index].imports for name, index in owners.items()}
        return {name: modules[name] for name, modules in imports.items() if name in modules}

    def _students_reason(self, cell: SourceCell, names: CellNames, students: set[str], index: int) -> str | None:
        if used := students & self.classes:
            return f"it uses the student's class `{min(used)}`"
        if changed := names.changes & students & self.answered:
            return f"it changes `{min(changed)}`, which is the student's"
        shared = (names.binds - names.imports.keys() - names.functions) & self.read_late
        if foreign := shared - self.given - self.answered:
            return f"the answers read `{min(foreign)}`, which it binds"
        if replaced := (names.functions | names.classes | shared) & self.answered:
            return f"it replaces `{min(replaced)}`"
        functions = {name for name in students if self._is_function(name, index)}
        nodes = list(_nodes(cell.text))
        for node in nodes:
            if _is_call_of(node, students) and (
                passed := _not_plain(node, names.functions | names.classes | functions)
            ):
                return f"it passes {passed} to `{_called(node)}`"
            if isinstance(node, ast.Attribute) and node.attr in NAMES and root(node) in functions:
                return f"it reads `.{node.attr}`"
        if functions and self._draws_randomly(index) and any(_is_call_named(node, SEEDS) for node in nodes):
            return "it seeds a random generator"
        if functions and (reason := _changes_settings(nodes, functions | names.functions)):
            return reason
        if result := _changed_results(nodes, students):
            return f"it changes `{result}`, which an answer returned"
        return None

    def _draws_randomly(self, before: int) -> bool:
        texts = [cell.full for cell in self.cells[:before] if cell.is_answer]
        return any(RANDOM.search(word) for text in texts for part in statements(text) for word in words_of(part))

    def _is_function(self, name: str, before: int) -> bool:
        index = self.owner(name, before)
        return index is None or name in self.names[index].functions

    def _needs_process(self, cell: SourceCell, names: CellNames) -> str | None:
        text = transformed(cell.text)
        if not statements(cell.text) and has_code(text):
            return "it is not Python"
        if "get_ipython" in text:
            return "it uses IPython itself"
        if used := MODULES & set(names.imports.values()):
            return f"it imports `{min(used)}`"
        if used := HISTORY & names.reads:
            return f"it reads `{min(used)}`"
        if files := self.files & set(_file_names(cell.text)):
            return f"it names the file `{min(files)}`, which an answer may write"
        return next((reason for node in _nodes(cell.text) if (reason := _reason_of(node))), None)

    def _is_declarative(self, cell: SourceCell, index: int) -> bool:
        parts = [item for before in self.names[: index + 1] for item in before.parts.items()]
        family = {name for name, (module, part) in parts if module == CHECK and part in CHECK_FUNCTIONS}
        calls = 0
        for part in statements(cell.text):
            if isinstance(part, (ast.FunctionDef, ast.ClassDef)):
                calls += len(part.decorator_list)
                if not all(_is_call_of(decorator, family) for decorator in part.decorator_list):
                    return False
            elif isinstance(part, ast.Expr) and not isinstance(part.value, ast.Constant):
                calls += 1
                if not _is_call_of(part.value, family):
                    return False
            elif not isinstance(part, (ast.Import, ast.ImportFrom, ast.Expr)):
                return False
        return calls > 0


def _text(cell: SourceCell) -> str:
    if cell.cell.cell_type != "code":
        return ""
    return cell.full if cell.is_answer else cell.text


def _nodes(text: str) -> Iterator[ast.AST]:
    for part in statements(text):
        yield from ast.walk(part)


def _is_call_of(node: ast.AST, names: set[str]) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _is_call_named(node: ast.AST, names: Collection[str]) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _called(node) in names


def _changes_settings(nodes: list[ast.AST], functions: Collection[str]) -> str | None:
    """Return the reason if the process may have other settings while one of the functions is called; None otherwise."""
    for node in nodes:
        if _is_call_named(node, SETTINGS):
            return f"it calls the answer while `{_called(node)}` changes a setting"
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(
            isinstance(inner, ast.Name) and inner.id in functions for part in node.body for inner in ast.walk(part)
        ):
            for item in node.items:
                if not _is_call_named(item.context_expr, PLAIN_CONTEXTS):
                    return f"it calls the answer within `with {ast.unparse(item.context_expr)}`, which may change a setting"
    return None


def _changed_results(nodes: list[ast.AST], students: Collection[str]) -> str | None:
    """Return a name whose object comes from an answer and is changed in place, because it may share parts with the answer's own."""
    results = set(students)
    while True:
        names = {name for node in nodes for name in _names_from(node, results)} - results
        if not names:
            break
        results |= names
    # Adding to a number creates a new object: `total += f(x)`.
    others = [node for node in nodes if not (isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name))]
    changes = [name for node in others for name in changed_names(node)]
    return next((name for name in changes if name in results - set(students)), None)


def _names_from(node: ast.AST, sources: Collection[str]) -> Iterator[str]:
    """Yield the names that an assignment or a loop binds to values computed from some names."""
    if isinstance(node, (ast.For, ast.comprehension)):
        value, targets = node.iter, [node.target]
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        value, targets = node.value, [node.target] if isinstance(node, ast.NamedExpr) else assigned(node)
    else:
        return
    if any(isinstance(part, ast.Name) and part.id in sources for part in ast.walk(value)):
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _file_names(text: str) -> Iterator[str]:
    for node in _nodes(text):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            name = PurePath(node.value).name
            if PurePath(name).suffix[1:].isalnum() and " " not in name and len(PurePath(name).suffix) < 7:
                yield name


def _calls_for_effect(text: str, modules: set[str]) -> bool:
    """Return whether a statement at the top level calls a function of a module, or sets an item or attribute of one."""
    for part in statements(text):
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            if isinstance(part.value.func, ast.Attribute) and root(part.value.func) in modules | {"get_ipython"}:
                return True
        elif any(
            isinstance(target, (ast.Attribute, ast.Subscript)) and root(target) in modules for target in assigned(part)
        ):
            return True
    return False


def _not_plain(call: ast.Call, functions: Collection[str]) -> str | None:
    """Return a description of an argument that is not plain data, or None."""
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        for node in ast.walk(argument):
            if isinstance(node, (ast.Lambda, ast.GeneratorExp)):
                return "a lambda" if isinstance(node, ast.Lambda) else "a generator"
            if isinstance(node, ast.Call) and _called(node) in ITERATORS:
                return f"the result of `{_called(node)}`"
        if isinstance(argument, ast.Name) and argument.id in functions:
            return f"the function `{argument.id}`"
    return None


def _reason_of(node: ast.AST) -> str | None:
    """Return the reason why a node requires judging its test in process, or None."""
    if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)):
        return "it awaits"
    if isinstance(node, ast.Global):
        return "it declares a global name"
    if isinstance(node, ast.Compare) and _compares_identity(node):
        return "it compares the identity of two objects"
    if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
        return f"it reads `.{node.attr}`"
    if isinstance(node, ast.Call):
        name = _called(node)
        if name == "open" and _opens_for_writing(node):
            return "it writes a file"
        if name in CALLS:
            return CALLS[name].format(name=name)
    for target in assigned(node):
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Call):
            return "it binds a name dynamically"
        if isinstance(target, ast.Name) and target.id in ("input", "print", "open"):
            return f"it replaces `{target.id}`"
        if isinstance(target, ast.Attribute) and root(target) in ("sys", "builtins", "__builtins__"):
            return f"it replaces `{root(target)}.{target.attr}`"
    return None


def _compares_identity(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    return any(
        isinstance(operator, (ast.Is, ast.IsNot)) and not any(map(_has_stable_identity, pair))
        for operator, pair in zip(node.ops, itertools.pairwise(sides), strict=True)
    )


def _has_stable_identity(node: ast.expr) -> bool:
    """Return whether an operand of `is` is the same object in every process: a constant, a class, or the type of a value."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in BUILTINS):
        return True
    if isinstance(node, ast.Attribute):
        return node.attr[0].isupper() or node.attr.startswith(("float", "int", "bool", "nan", "pi"))
    return isinstance(node, ast.Call) and _called(node) == "type"


def _opens_for_writing(node: ast.Call) -> bool:
    modes = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    return any(not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+") for mode in modes)

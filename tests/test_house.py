"""The house rules: one-way imports, one place for versions, clean code, and a reason for every top-level file."""

import ast
import builtins
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROSE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs", ".github"]

# Each room may import itself and the rooms named here; a room named "tape.run" is a folder inside the room "tape".
ROOMS = {
    "tape.internals": set(),
    "tape.atlas": set(),
    "tape.recording": set(),
    "tape.run": {"tape.recording", "tape.internals"},
    "tape.observe": {"tape.recording", "tape.internals", "tape.run"},
    "tape.oracle": {"tape.recording", "tape.internals", "tape.run", "tape.observe"},
    "tape.diagnose": {"tape.recording", "tape.internals", "tape.run", "tape.observe", "tape.oracle"},
    "tape.repair": {"tape.recording", "tape.internals", "tape.run", "tape.oracle", "tape.diagnose"},
    "tape.watch": {"tape.recording", "tape.internals", "tape.run", "tape.observe", "tape.diagnose"},
    "tape": {"tape"},
    "view": {"tape.recording", "tape.atlas"},
    "check.playground": {"tape", "view"},
    "check": {"tape", "view"},
    "course": {"tape", "view", "check"},
    "course.book": {"tape", "view", "check", "course", "run_in_fork"},
    "grade.wire": {"check"},
    "grade.sandbox": {"tape.recording", "tape.run", "run_in_fork", "check", "grade.wire", "grade.clean"},
    "grade.clean": {"tape.recording", "tape.run", "view"},
    "grade.submission": {"grade.nbgrader_adapter", "tape.recording", "check", "course", "grade.wire", "grade.sandbox", "grade.clean"},
    "grade.backends": {"course", "grade.wire", "grade.sandbox", "grade.submission"},
    "grade.validation": {"tape.recording", "check", "grade.wire", "grade.sandbox", "grade.submission", "grade.backends"},
    "grade.policy": {"grade.nbgrader_adapter", "grade.submission_time"},
    "grade.submission_time": set(),
    "grade.nbgrader_adapter": set(),
    "grade.batch": {
        "grade.policy",
        "grade.submission_time",
        "grade.nbgrader_adapter",
        "tape.run",
        "course",
        "grade.validation",
        "grade.clean",
        "grade.wire",
        "grade.sandbox",
        "grade.submission",
        "grade.backends",
    },
    "grade": {"tape", "view", "check", "course", "grade"},
    "classroom": {"view", "course", "grade"},
    "desk": {"classroom"},
}  # fmt: skip
EVERYWHERE = {"errors", "graded", "locale", "requirements"}  # what a user may be told, and what is installed here
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in (ROOT / "autograder").rglob("*.py")
}


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text("utf-8"))


@cache
def imports(module: str) -> set[str]:
    """Return the modules of this package that a module imports, wherever in the file."""
    return imported(tree_of(FILES[module])) & set(FILES)


def imported(tree: ast.Module) -> set[str]:
    """Return the modules that a text imports; of this package's `from folder import module` the module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else node.module for name in whole}
    return found


def room_of(module: str) -> str:
    """Return the innermost folder of the package that contains a module, or the module's own name at the top level."""
    inside = module.removeprefix("autograder.")
    return max((room for room in ROOMS if f"{inside}.".startswith(f"{room}.")), key=len, default=inside)


def is_allowed(room: str, other: str) -> bool:
    """Return whether a folder may import another: itself, a folder that it lists, or one inside that."""
    return any(f"{other}.".startswith(f"{one}.") for one in ROOMS[room] | EVERYWHERE | {room})


VAGUE = {"one", "found", "own", "told"}  # CONTRIBUTING.md: variables say what they hold


def test_variables_say_what_they_hold():
    """No variable or argument has a name that fits every value."""
    nodes = [(module, node) for module, file in FILES.items() for node in ast.walk(tree_of(file))]
    bound = {
        (module, name) for module, node in nodes
        if (name := getattr(node, "arg", getattr(node, "id", None))) in VAGUE and not isinstance(node, ast.keyword)
    }  # fmt: skip

    # the fields of three records, each of what their class names
    fields = {"FoundNotebooks", "Finding", "CheckedFunction"}
    classes = {module for module, node in nodes if isinstance(node, ast.ClassDef) and node.name in fields}
    assert {(module, "found") for module in classes} == bound


# Names of tensors, nodes and storages that PyTorch keeps to itself; any name below `torch` with an underscore counts as well.
PRIVATE = re.compile(
    r"_(version|base|is_view|cdata|backward_hooks|typed_storage|fused_\w+|foreach_\w+|(raw_)?saved_\w*)$|_grad$"
)
PRIVATE_TEXT = re.compile(PRIVATE.pattern + r"|torch(\.\w+)*\._\w+$")
OURS = {"self", "cls"}


def private_names(tree: ast.AST) -> set[str]:
    """Return the private names of PyTorch that a module reads, imports, or passes to getattr and the like."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            start = f"{getattr(node, 'module', None) or ''}."
            found |= {name for alias in node.names if (name := (start + alias.name).strip(".")).startswith("torch")}
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            if whole.startswith("torch.") or (PRIVATE.match(node.attr) and ast.unparse(node.value) not in OURS):
                found.add(whole if whole.startswith("torch.") else f"torch.{node.attr}")
        elif isinstance(node, ast.Constant) and PRIVATE_TEXT.match(str(node.value)):
            found.add(f"torch.{node.value}")
    return {name for name in found if re.search(r"\._(?!_)", name)}


@pytest.mark.parametrize(("text", "found"), [
    ("x = tensor._version", {"torch._version"}),
    ("from torch.utils._pytree import tree_leaves", {"torch.utils._pytree.tree_leaves"}),
    ("from torch import _C", {"torch._C"}),
    ("getattr(node, f'_saved_{name}')", {"torch._saved_"}),
    ("importlib.import_module('torch._dynamo')", {"torch.torch._dynamo"}),
    ("torch._foreach_add_([a], 1)", {"torch._foreach_add_"}),
    ("self._saved_values = torch.__version__; row._replace(a=1)", set()),
])  # fmt: skip
def test_the_search_for_private_names_finds_them(text, found):
    """Attributes, imports, texts given to getattr; not our own fields, and not `__version__`."""
    assert found == private_names(ast.parse(text))


def test_one_door_to_the_internals_of_pytorch():
    """Only `tape/internals` reads private names of PyTorch."""
    read = {module: private_names(tree_of(file)) for module, file in FILES.items()}
    inside = {module for module, names in read.items() if names and module.startswith("autograder.tape.internals.")}
    # It looks for such names in the texts of tests, and reads none.
    del read["autograder.grade.submission.teacher.cell_kinds"]

    assert {} == {module: sorted(names) for module, names in read.items() if names and module not in inside}
    assert 4 <= len(inside)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_one_way(room):
    """A folder does not import folders that are above it in the order."""
    wrong = {
        module: above
        for module in FILES
        if room_of(module) == room
        and (above := sorted(name for name in imports(module) if not is_allowed(room, room_of(name))))
    }
    assert {} == wrong


def test_no_two_modules_import_each_other():
    """Neither directly nor through others, inside a folder or across folders, at the top of a file or within a function."""
    waiting = {module: imports(module) - {module} for module in FILES}
    while free := {module for module, needed in waiting.items() if not needed & set(waiting)}:
        waiting = {module: needed for module, needed in waiting.items() if module not in free}
    assert {} == {module: sorted(needed & set(waiting)) for module, needed in waiting.items()}


def test_a_module_binds_each_constant_once():
    """A second binding of a constant at the top of a module would change the value that earlier functions read."""

    def constants(file: Path) -> list[str]:
        statements = [node for node in tree_of(file).body if isinstance(node, ast.Assign)]
        targets = [part for node in statements for target in node.targets for part in ast.walk(target)]
        return [part.id for part in targets if isinstance(part, ast.Name) and part.id.isupper()]

    bound = {name: constants(file) for name, file in FILES.items()}
    assert sum(map(len, bound.values())) > 500
    assert {} == {name: found for name, found in bound.items() if len(found) > len(set(found))}


def test_every_room_has_tests_that_import_it():
    """An error in a folder fails a test of that folder, and not only tests of the verdict."""
    tested = set().union(
        *(imported(ast.parse(file.read_text("utf-8"))) for file in (ROOT / "tests").rglob("test_*.py"))
    )
    folders = {module.rpartition(".")[0] for module, file in FILES.items() if file.name != "__init__.py"}
    assert set() == folders - {name.rpartition(".")[0] for name in tested & set(FILES)}


def test_one_module_says_where_the_package_lies():
    """A module that counts parent folders is wrong after it has moved, without an error."""
    counting = {
        module
        for module, file in FILES.items()
        if re.search(r"__file__\W.*(parents\[[2-9]|parent\.parent)", file.read_text("utf-8"))
    }
    assert {"autograder.cli.bootstrap"} == counting


CAUGHT_INSIDE = {
    "NotApplicable", "StudentError", "NotPlain", "Unplannable",
}  # each is caught by the code that expects it  # fmt: skip


def test_modules_and_functions_are_short():
    """No module has more than 500 lines, and no function more than 60."""
    for path in (ROOT / "autograder").rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= 500, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, (path, node.name)


def test_errors_are_of_one_family():
    """Each exception is an AutograderError, a verdict on an answer, a time limit, or caught inside the package."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for file in FILES.values()
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ClassDef)
    }
    builtin = {name for name in dir(builtins) if isinstance(getattr(builtins, name), type)}
    raised = {
        name for name, of in bases.items() if any(issubclass(getattr(builtins, b), Exception) for b in of & builtin)
    }
    assert {"AutograderError", "InputError", "SetupError", "UnfinishedError", "Unsolved"} | CAUGHT_INSIDE == raised


def test_top_level_has_only_what_has_a_reason():
    """The top level contains only the course, its sources, the package, and the files of tools."""
    tracked = subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines()
    known = {
        "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs",
        "environment.yml", "pyproject.toml", "nbgrader_config.py",
        "notebooks", "autograder", "solutions", "assets", "tests", "requirements",
        ".ci", ".github", ".gitignore", ".pre-commit-config.yaml",
    }  # fmt: skip
    assert set() == {name.split("/")[0] for name in tracked} - known


def test_the_readme_lists_every_lesson():
    """The map of the lessons in README.md has each lesson's number, title and minutes, in the course's order."""
    rows = re.findall(r"^\| (\d\d) \| (.+?) \| .+ \| (\d+) \|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    lessons = [file for file in sorted((ROOT / "autograder" / "course" / "lessons").glob("*.toml"))]
    known = [(file.stem[:2], tomllib.loads(file.read_text("utf-8"))) for file in lessons]
    assert [(number, lesson["title"], str(lesson["minutes"])) for number, lesson in known] == rows


@pytest.mark.parametrize("command", [
    pytest.param(["ruff", "check"], id="ruff"),
    pytest.param(["ruff", "format", "--check"], id="format"),
    pytest.param(["mypy"], id="types", marks=pytest.mark.thorough),
    pytest.param(["codespell_lib", *PROSE, "autograder", "solutions", "tests", "assets"], id="spelling"),
])  # fmt: skip
def test_the_code_is_clean(command):
    """Linter, formatter, type checker and spell checker find nothing."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert 0 == done.returncode, (done.stdout + done.stderr)[-3000:]


def test_records_are_structs_or_frozen_dataclasses():
    """A named tuple also compares and unpacks as a plain tuple, which hides the meaning of its fields."""
    sources = (ROOT / "autograder").rglob("*.py")
    assert [] == [str(path) for path in sources if "(NamedTuple)" in path.read_text("utf-8")]

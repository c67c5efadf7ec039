"""Writes docs/api.md, and the list of modules in docs/ARCHITECTURE.md, from docstrings: `python -m tests.api_page`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
PACKAGES = ("autograder", "autograder.check", "autograder.course", "autograder.tape", "autograder.view")
HEAD = """# Public names

You may import the names on this page; every other name of the package is private and may change in any release.
Three more modules keep their paths because files of users import them: `autograder.grade.batch.csv_export` and
`autograder.course.nbgrader_release` (in an `nbgrader_config.py`), and `autograder.classroom.report` (`report("02")` in a notebook).
The pytest plug-in adds `autograd_guard`; [watch.md](watch.md) describes it.
`python -m tests.api_page` writes this page from the docstrings.
"""
ARCHITECTURE = PAGE.with_name("ARCHITECTURE.md")
START = "## Every module\n"
SECTION = re.compile(r"^(Args|Returns|Raises|Attributes):$")


def architecture() -> str:
    """Return docs/ARCHITECTURE.md with its list of modules, each with the first sentence of its docstring."""
    root = PAGE.parents[1] / "autograder"
    lines = [ARCHITECTURE.read_text("utf-8").partition(START)[0] + START, INTRODUCTION]
    for folder in sorted({file.parent for file in root.rglob("*.py")}):
        name = folder.relative_to(root.parent).as_posix()
        lines += [f"\n### `{name}`\n\n{_first_sentence(folder / '__init__.py')}\n"]
        files = [file for file in sorted(folder.glob("*.py")) if file.name != "__init__.py"]
        lines += [f"- `{file.name}`: {_first_sentence(file)}" for file in files]
    return "\n".join(lines) + "\n"


INTRODUCTION = """\
`python -m tests.api_page` writes this list from the docstrings. Search it for the subject of your change."""


def _first_sentence(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]


def page() -> str:
    """Return the page: each package with its first sentence, and each public name with its signature and docstring."""
    parts = [HEAD]
    for package in map(importlib.import_module, PACKAGES):
        parts += [f"## `{package.__name__}`\n", f"{(inspect.getdoc(package) or '').partition(chr(10))[0]}\n"]
        parts += [_entry(package.__name__, name, getattr(package, name)) for name in package.__all__]
        if package.__name__ == "autograder":
            parts += [_explanation()]
    return "\n".join(parts)


def _entry(package: str, name: str, value: object) -> str:
    lines = "\n".join(_markdown(inspect.getdoc(value) or ""))
    return f"### `{package}.{name}`\n\n```python\n{_signature(name, value)}\n```\n\n{lines}\n"


def _explanation() -> str:
    """Return the entry of the object that `explain` returns: its attributes and methods."""
    from autograder.api import Explanation

    members = {"recording": "The underlying data, which can be stored as JSON and drawn without PyTorch."}
    members |= {name: inspect.getdoc(getattr(Explanation, name)) or "" for name in vars(Explanation) if name[0] != "_"}
    lines = [f"- `{name}`: {text.partition(chr(10))[0]}" for name, text in members.items()]
    return "\n".join(["### `Explanation`\n", f"{inspect.getdoc(Explanation)}".partition("\n")[0] + "\n", *lines]) + "\n"


def _signature(name: str, value: object) -> str:
    if isinstance(value, type) and issubclass(value, Exception):
        return f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
    text = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", str(inspect.signature(value))) if callable(value) else ""
    parts = [name + text] if len(name + text) <= 100 else _split(name, text)
    return "\n".join(parts)


def _split(name: str, text: str) -> list[str]:
    """Return a long signature with a parameter on each line."""
    arguments, _, returned = text.rpartition(") -> ")
    parts = re.split(r", (?=\*|\w+:)", arguments.removeprefix("("))
    return [f"{name}(", *(f"    {part}," for part in parts), f") -> {returned}"]


def _markdown(docstring: str) -> list[str]:
    """Return a docstring's lines as Markdown, with a list for each section such as "Args:"."""
    lines: list[str] = []
    for paragraph in docstring.split("\n\n"):
        first, *rest = paragraph.splitlines() or [""]
        if not SECTION.match(first):
            is_code = paragraph.startswith("    ")
            lines += ["```python", *textwrap.dedent(paragraph).splitlines(), "```"] if is_code else [first, *rest]
        elif first == "Returns:":
            lines += [f"{first} {' '.join(line.strip() for line in rest)}"]
        else:
            items = re.split(r"\n(?=\S)", textwrap.dedent("\n".join(rest)))
            lines += [first, ""]
            lines += [re.sub(r"^(\S+): ", r"- `\1`: ", " ".join(item.split())) for item in items]
        lines.append("")
    return lines[:-1]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    ARCHITECTURE.write_text(architecture(), "utf-8")

"""The released lessons: no answer before its question, the language of their texts, and a question for a person at the end."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence

import pytest
from nbformat import NotebookNode
from nbgrader.utils import determine_grade, is_grade, is_solution

from autograder.course import canonical
from autograder.course.author_cells import AUTHOR_TAGS, PROGRAM, AuthorExercise, Explanation
from autograder.course.canonical import read
from autograder.course.catalogue import explanations
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.locale.notebook_translation import UNWRITTEN, in_language
from autograder.tape.recording.verdict_types import OUTCOMES
from tests.lessons.cells import SHOWN
from tests.lessons.sources import exercises

LESSONS = [path.relative_to(NOTEBOOKS) for path in lessons(NOTEBOOKS) if path.stem[0].isdigit()]
TASK = re.compile(r"\?$|\"|(Fix|Exercise|Transfer|Write one|Put the lines)\b")
"""A heading that asks, quotes a claim, or names a task."""
TELLING = re.compile(r"\b(correct|wrong|raises?|harm\w*|that runs?|writes|counts|gets|passes|allows|late|early)\b")
COPIES = {"clone", "detach", "data", "no_grad", "copy"}
SHORTEST = 12
"""The number of characters of an answer's line from which an equal line in another cell is not a coincidence."""


def leaks(notebook: NotebookNode, known: list[AuthorExercise], explained: Sequence[Explanation]) -> set[str]:
    """Return "kind: cell" for each cell that shows an answer before its question."""
    found: set[str] = set()
    for section in sections(notebook):
        for finder in (told_by_heading, told_by_demonstration, told_by_text, told_by_reference, told_by_run):
            found |= {f"{finder.__name__}: {cell.id}" for cell in finder(section)}
        found |= {f"told_by_copy: {cell.id}" for cell in told_by_copy(section, known)}
        found |= {f"told_by_explanation: {cell.id}" for cell in told_by_explanation(section, explained)}
    return found


def sections(notebook: NotebookNode) -> list[list[NotebookNode]]:
    """Return the cells of each section; a section begins with its heading."""
    found: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            found.append([])
        found[-1].append(cell)
    return [section for section in found if section]


def told_by_heading(section: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the heading if it contains the question of the section."""
    heading = section[0].source.partition("\n")[0]
    asks = any(is_check(cell) or asks_to_predict(cell) for cell in section)
    if asks and heading.startswith("##") and not TASK.search(heading) and TELLING.search(heading):
        yield section[0]


def told_by_demonstration(section: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the cells that contain an expected value, or, directly below a question, a comment."""
    for above, cell in zip([None, *section], section, strict=False):
        if cell.cell_type != "code" or is_check(cell) or "stub" in cell.metadata.get("tags", []):
            continue
        expected = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Raise | ast.Assert)]
        if expected or (above is not None and asks_to_predict(above) and has_comment(cell.source)):
            yield cell


def told_by_text(section: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the cells above a prediction that name some of the four outcomes, and not all of them as the choice."""
    last = max(
        (number for number, cell in enumerate(section) if "predicted(" in cell.source and is_check(cell)), default=0
    )
    for cell in section[:last]:
        named = {outcome for outcome in OUTCOMES if f"`{outcome}`" in cell.source or f'= "{outcome}"' in cell.source}
        if named and named != set(OUTCOMES):
            yield cell


def told_by_reference(section: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the check cells with a function that modifies or copies as a right answer does: neither the original nor a program.

    A function that uses a name which the check does not allow in an answer is not one.
    """
    for cell in filter(is_check, section):
        shown = {"given", "Given", *re.findall(r"\b(?:given|asked)=(\w+)", cell.source)}
        forbidden = re.findall(r'without=\("(\w+)"', cell.source)
        own = [node for node in definitions(cell.source) if not node.decorator_list and node.name not in shown]
        own = [node for node in own if not any(f".{name}" in ast.unparse(node) for name in forbidden)]
        if any(modifies_or_copies(part) for node in own for part in ast.walk(node)):
            yield cell


def told_by_run(section: list[NotebookNode]) -> Iterator[NotebookNode]:
    """Yield the cells that run or judge a program before its question has an answer: a decorator, a call, or a picture below."""
    asked = False
    for cell in section:
        tags = cell.metadata.get("tags", [])
        body = ast.parse(cell.source).body if cell.cell_type == "code" and not cell.source.startswith("%") else []
        decorated = any(re.match(r"(predicted|culprit)", ast.unparse(one)) for one in decorators(body))
        runs = PROGRAM in tags and (len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or any(decorators(body)))
        is_early = asked and re.search(r"^@observed(?!\(after=)", cell.source, re.MULTILINE)
        if decorated or runs or is_early:
            yield cell
        asked = asked or PROGRAM in tags


def told_by_explanation(section: list[NotebookNode], explained: Sequence[Explanation]) -> Iterator[NotebookNode]:
    """Yield the cells with a line of an explanation, which only the check prints, or with a folded text below a question."""
    told = {row for one in explained for row in lines(one.text)}
    for cell in section:
        folded = "<details>" in cell.source and any(is_check(other) for other in section)
        if folded or told & set(lines(cell.source)):
            yield cell


def decorators(body: list[ast.stmt]) -> list[ast.expr]:
    """Return the decorators of the functions of a cell."""
    return [decorator for node in body for decorator in getattr(node, "decorator_list", [])]


def told_by_copy(section: list[NotebookNode], known: list[AuthorExercise]) -> Iterator[NotebookNode]:
    """Yield the texts and checks with a line of a right answer that is neither in the exercise nor in a program of its text."""
    here = {cell.metadata.nbgrader.grade_id for cell in filter(is_check, section)}
    texts = "\n".join(cell.source for cell in section if cell.cell_type == "markdown")
    asked = "".join(re.findall(r"```.*?```", texts, re.DOTALL))
    for exercise in (one for one in known if one.id in here):
        answers = [line for answer in exercise.of_kind("answer", "right") for line in lines(answer.source)]
        told = set(answers) - set(lines(exercise.stub.replace("# | ", ""))) - set(lines(asked))
        for cell in section:
            if (is_check(cell) or cell.cell_type == "markdown") and told & set(lines(cell.source)):
                yield cell


def is_check(cell: NotebookNode) -> bool:
    """Return whether a cell judges an answer."""
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("grade"))


def asks_to_predict(cell: NotebookNode) -> bool:
    """Return whether a text asks for a prediction."""
    return cell.cell_type == "markdown" and "predict" in cell.source.lower()


def has_comment(source: str) -> bool:
    """Return whether code has a comment."""
    return any(one.type == tokenize.COMMENT for one in tokenize.generate_tokens(io.StringIO(source).readline))


def modifies_or_copies(node: ast.AST) -> bool:
    """Return whether a part of a program modifies a tensor in place, or takes a copy or an alias of one."""
    if isinstance(node, ast.Attribute):
        return node.attr in COPIES or (node.attr.endswith("_") and not node.attr.startswith("_"))
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AugAssign) and any(isinstance(one, ast.Subscript) for one in targets)


def definitions(source: str) -> list[ast.FunctionDef | ast.ClassDef]:
    """Return the functions and classes of a cell."""
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def lines(source: str) -> list[str]:
    """Return the lines of code that are long enough to be distinctive."""
    rows = [line.strip() for line in source.splitlines()]
    return [row for row in rows if len(row) >= SHORTEST and not row.startswith("#")]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_nothing_is_given_away(lesson):
    """No heading, demonstration, text or check cell of a released lesson shows an answer before its question."""
    assert set() == leaks(read(NOTEBOOKS / lesson), exercises(SOLUTIONS / lesson), explanations(lesson.stem))


def heading(cell, text):
    """Put another title over a section."""
    cell.source = f"## 3 · {text}\n{cell.source.partition(chr(10))[2]}"


def added(cell, text):
    """Add lines to a cell."""
    cell.source = f"{cell.source}\n{text}"


def above(cell, text):
    """Put a line above a cell's lines."""
    cell.source = f"{text}\n{cell.source}"


def explanation_line():
    """Return the first line of an explanation of the first lesson."""
    return explanations(FIRST.stem)[0].text.partition("\n")[0]


REFERENCE = """

def emptied(buffer, total):
    added = buffer + total
    for row in range(len(buffer)):
        buffer[row] = 0
    return added
"""
PLANTED = [
    ("told_by_heading", "prediction_view_written", "heading", lambda cell: heading(cell, "A write that does no harm")),
    ("told_by_heading", "drain", "heading", lambda cell: heading(cell, "PyTorch counts writes, not changes")),
    ("told_by_demonstration", None, "a-1-b-a-a", lambda cell: added(cell, "assert b == 1 and M == [1, 0]")),
    ("told_by_demonstration", None, "a-1-b-a-a", lambda cell: added(cell, "a = 2  # binds the name a to another object")),
    ("told_by_text", "prediction_item_written", "heading", lambda cell: added(cell, "This is `raises-backward`.")),
    ("told_by_text", "prediction_data_written", "stub", lambda cell: added(cell, '# prediction_data_written = "correct"')),
    ("told_by_reference", "drain", "check", lambda cell: added(cell, REFERENCE)),
    ("told_by_reference", "read_counters", "check", lambda cell: added(cell, "def counted():\n    return torch.zeros(3).zero_()._version")),
    ("told_by_copy", "drain", "check", lambda cell: added(cell, f'"""\n{answer_line("drain")}\n"""')),
    ("told_by_run", "prediction_item_written", "program", lambda cell: added(cell, "\n\nitem_written()")),
    ("told_by_run", "prediction_item_written", "program", lambda cell: above(cell, '@predicted("prediction_item_written")')),
    ("told_by_run", "prediction_item_written", "program", lambda cell: above(cell, "@observed")),
    ("told_by_explanation", "prediction_item_written", "heading", lambda cell: added(cell, explanation_line())),
    ("told_by_explanation", "prediction_item_written", "heading", lambda cell: added(cell, "<details>It has one more version.</details>")),
    ("told_by_copy", "fresh_state", "heading", lambda cell: added(cell, answer_line("fresh_state"))),
]  # fmt: skip
FIRST = LESSONS[0]


def answer_line(exercise):
    """Return a line of the model answer that the stub does not have."""
    known = next(one for one in exercises(SOLUTIONS / FIRST) if one.id == exercise)
    return next(line for line in lines(known.of_kind("answer")[0].source) if line not in known.stub)


def place(notebook, exercise, where):
    """Return the cell of that id, or the heading, the stub or the check of an exercise."""
    if exercise is None:
        return next(cell for cell in notebook.cells if cell.id == where)
    ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    check = ids.index(exercise)
    if where == "heading":
        return next(cell for cell in reversed(notebook.cells[:check]) if cell.source.startswith("## "))
    answer = ids.index(f"answer_{exercise}")
    return notebook.cells[{"check": check, "program": answer - 1}.get(where, answer)]


@pytest.mark.parametrize(("kind", "exercise", "where", "plant"), PLANTED)
def test_a_planted_leak_is_found(kind, exercise, where, plant):
    """The scan reports only the cell and the kind of the leak."""
    notebook = read(NOTEBOOKS / FIRST)
    cell = place(notebook, exercise, where)
    plant(cell)
    assert {f"{kind}: {cell.id}"} == leaks(notebook, exercises(SOLUTIONS / FIRST), explanations(FIRST.stem))


SOURCES = [pytest.param(path, id=path.parent.name) for path in lessons(SOLUTIONS)]
LONGEST_SENTENCE = 30  # words
LONGEST_CELL = 12  # lines
CODE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", re.DOTALL)
LIST_MARK = re.compile(r"^(\d+\.|[-*]) ")


def prose(source: str) -> list[str]:
    """Return the lines of a markdown cell without headings and tables, each piece of code in it as one word."""
    text = CODE.sub("code", source)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("#", "|", "<"))]
    return [LIST_MARK.sub("", line) for line in lines]


def long_sentences(source: str) -> list[str]:
    """Return the lines with more words than a reader can easily remember; dashes and list marks are not words."""
    return [line for line in prose(source) if len(re.findall(r"\w[\w'’.-]*", line)) > LONGEST_SENTENCE]


def long_cells(cells) -> list[str]:
    """Return the ids of code cells with too many lines; imports, checks, programs and authors' cells may be longer."""
    free = {"stub", PROGRAM, *AUTHOR_TAGS}
    return [
        f"{cell.id}: {len(cell.source.splitlines())} lines"
        for cell in cells
        if cell.cell_type == "code"
        and not free & set(cell.metadata.get("tags", []))
        and not cell.metadata.get("nbgrader", {}).get("grade")
        and not cell.source.startswith(("import ", "from "))
        and not cell.source.startswith(f"@{SHOWN}")
        and len([line for line in cell.source.splitlines() if line.strip()]) > LONGEST_CELL
    ]


@pytest.mark.parametrize("path", SOURCES)
def test_sentences_are_short(path):
    """Sentences are short enough for a second-language reader."""
    long = [line for cell in read(path).cells if cell.cell_type == "markdown" for line in long_sentences(cell.source)]
    assert [] == long


@pytest.mark.parametrize("path", SOURCES)
def test_code_cells_are_short(path):
    """One idea a cell: at most twelve lines, where the reader is not meant to study a whole program."""
    assert [] == long_cells(read(path).cells)


NAMES = [path.stem for path in lessons(NOTEBOOKS) if path.stem[:2].isdigit()]


def written(notebook):
    """Return the cells that a person grades."""
    return [cell for cell in notebook.cells if cell.cell_type == "markdown" and is_grade(cell) and is_solution(cell)]


def released(name):
    """Return a lesson's notebook as it is handed out."""
    return canonical.read(NOTEBOOKS / name / f"{name}.ipynb")


@pytest.mark.parametrize("spoken", ["en", "zh-CN"])
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_answer_waits_for_nobody(name, spoken):
    """Nbgrader itself gives an untouched answer its 0 points, and leaves any other to a person."""
    notebook = in_language(released(name), spoken)
    (cell,) = written(notebook)
    assert cell.source == UNWRITTEN
    assert determine_grade(cell)[0] == 0
    cell.source = "It shares the storage."
    assert determine_grade(cell)[0] is None


@pytest.mark.parametrize("name", NAMES)
def test_the_release_has_the_question_and_not_the_answer(name):
    """The source's answer is not in the released cells."""
    (model,) = written(canonical.read(SOLUTIONS / name / f"{name}.ipynb"))
    assert len(model.source.split()) > 40
    assert model.source.splitlines()[0] not in "\n".join(cell.source for cell in released(name).cells)

"""A notebook for each student: what is declared fits the sources, every variant is proven, and the record says who got which."""

import re

import nbformat
import pytest

from autograder.check.message import Incorrect
from autograder.course.author_cells import exercises_of
from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.course.variants.declared_changes import (
    DeclaredChanges,
    ExerciseChoice,
    VariantError,
    check_changes,
    chosen_names,
    read_changes,
    rename,
    with_choices,
)
from autograder.course.variants.handout import count_shared_answers
from autograder.course.variants.variant import vary
from autograder.course.variants.variant_proof import VariantProof, names_after, verdict_on
from autograder.course.variants.variant_record import FILE, VariantRecord, other_owners, read_record

SOURCES = {path.parent.name: path for path in lessons(SOLUTIONS) if path.parent.name != "start"}
EACH = [pytest.param(name, id=name) for name in SOURCES]


def code(source, **metadata):
    """Return a code cell."""
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def text(source):
    """Return a cell of text."""
    return nbformat.v4.new_markdown_cell(source)


def notebook(*cells):
    """Return a notebook of these cells."""
    return nbformat.v4.new_notebook(cells=list(cells))


@pytest.mark.parametrize("lesson", EACH)
def test_every_lesson_varies_in_names_and_in_more(lesson):
    """Each lesson declares other names, and a choice; all of it fits the lesson as it is now."""
    assert read_changes(SOLUTIONS, lesson).names
    assert read_changes(SOLUTIONS, lesson).choices
    check_changes(lesson, read(SOURCES[lesson]), read_changes(SOLUTIONS, lesson))


@pytest.mark.parametrize("lesson", EACH)
def test_a_variant_of_the_release_is_the_release_of_the_variant(lesson):
    """A student's notebook has the words of the source that grades it, in every cell that the release keeps unchanged."""
    source, released = (read(folder / lesson / f"{lesson}.ipynb") for folder in (SOLUTIONS, NOTEBOOKS))
    same = {cell.id for cell in released.cells} & {cell.id for cell in source.cells}
    texts = [{cell.id: cell.source for cell in one.cells} for one in (source, released)]
    unchanged = {id for id in same if texts[0][id] == texts[1][id]}
    varied = [
        {cell.id: cell.source for cell in vary(one, 3, read_changes(SOLUTIONS, lesson)).cells}
        for one in (source, released)
    ]
    assert len(unchanged) > 20
    assert [varied[0][id] for id in unchanged] == [varied[1][id] for id in unchanged]


@pytest.mark.parametrize("lesson", EACH)
def test_students_get_different_notebooks(lesson):
    """Five seeds give five different sets of answer and check cells; one seed gives one."""
    source = read(NOTEBOOKS / lesson / f"{lesson}.ipynb")

    def graded(seed):
        return "".join(
            cell.source
            for cell in vary(source, seed, read_changes(SOLUTIONS, lesson)).cells
            if "nbgrader" in cell.metadata
        )

    assert 5 == len({graded(seed) for seed in range(5)})
    assert graded(4) == graded(4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("lesson", EACH)
def test_every_answer_has_its_verdict_in_a_variant(lesson, seed, monkeypatch):
    """Stubs count as not attempted, right answers pass, and each wrong one is refused in the words that belong to the variant."""
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    varied = vary(read(SOURCES[lesson]), seed, read_changes(SOLUTIONS, lesson))
    proven = VariantProof(lesson, varied, seed).prove()
    assert len(proven.exercises) >= 5
    names = names_after(proven.setup)
    for exercise in exercises_of(varied):
        for wrong in exercise.of_kind("wrong"):
            refusal = verdict_on(wrong.source, exercise.check, names, seed)
            assert isinstance(refusal, Incorrect)
            assert wrong.phrase in " ".join(str(refusal).split())


def test_a_name_is_changed_where_it_is_the_variable():
    """In code, comments and labels, and in text only as code; attributes, string prefixes and longer words are unchanged."""
    cells = notebook(
        text("The w of `w * x` is no word: `layer.w`, `w1`.\n```\nw = 1\n```"),
        code('w = layer.w  # w is kept\nprint(f"{w} {f}", {"w": w, "f": f})\ncheck("e", w=leaf(3), wide=w1)'),
    )
    rename(cells, DeclaredChanges(names={"w": ("q",), "f": ("g",)}), 2)
    rename(cells, DeclaredChanges(names={"w": ("q",), "f": ("g",)}), 5)
    assert "The w of `q * x` is no word: `layer.w`, `w1`.\n```\nq = 1\n```" == cells.cells[0].source
    assert (
        'q = layer.w  # q is kept\nprint(f"{q} {g}", {"q": q, "g": g})\ncheck("e", q=leaf(3), wide=w1)'
        == cells.cells[1].source
    )


def test_an_apostrophe_begins_no_variable():
    """In "the caller's memory" no s is a variable; one between quotes, as in a dictionary, is the variable's name."""
    source = 'def given(s):\n    """The caller\'s memory keeps s."""\n    return {\'s\': s}\n'
    cells = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    rename(
        cells,
        DeclaredChanges(names={"s": ("g",)}),
        next(n for n in range(99) if chosen_names(DeclaredChanges(names={"s": ("g",)}), n) == {"s": "g"}),
    )
    assert cells.cells[0].source.splitlines() == [
        "def given(g):",
        '    """The caller\'s memory keeps g."""',
        "    return {'g': g}",
    ]


def test_a_choice_changes_its_own_section_only():
    """All texts of a choice change together, up to the next heading."""
    cells = notebook(
        text("## 1\n\nFill it with ones."),
        code("d[:] = 1", nbgrader={"grade_id": "fill", "grade": True}),
        text("## 2\n\nFill it with ones."),
    )
    choice = ExerciseChoice("fill", "the number", ("ones", "[:] = 1"), (("twos", "[:] = 2"),))
    seen = set()
    for seed in range(8):
        own = with_choices(cells, DeclaredChanges(choices=(choice,)), seed)
        seen.add(tuple(cell.source for cell in own.cells))
    one, two = "## 1\n\nFill it with ones.", "## 1\n\nFill it with twos."
    assert {(one, "d[:] = 1", cells.cells[2].source), (two, "d[:] = 2", cells.cells[2].source)} == seen


@pytest.mark.parametrize(("changes", "problem"), [
    (DeclaredChanges(names={"w": ("x",)}), "the notebook uses it already"),
    (DeclaredChanges(names={"w": ("sum",)}), "it is a Python keyword or builtin"),
    (DeclaredChanges(names={"a": ("q",)}), "an English word"),
    (DeclaredChanges(choices=(ExerciseChoice("f", "?", ("gone",), (("here",),)),)), "not in its section"),
    (DeclaredChanges(choices=(ExerciseChoice("nowhere", "?", ("w",), (("q",),)),)), "not in its section"),
])  # fmt: skip
def test_what_cannot_be_declared_is_named(changes, problem):
    """A name that is taken, and a text that the lesson does not have any more, are refused before anything is handed out."""
    cells = notebook(text("## 1"), code("a = 1\ndef f(w, x):\n    return w", nbgrader={"grade_id": "f", "grade": True}))
    with pytest.raises(VariantError, match=problem):
        check_changes("first", cells, changes)


def test_a_file_of_another_form_is_named(tmp_path):
    """Lists of different lengths, an unknown word and no TOML at all: one sentence with the file's name each."""
    for content, problem in (
        ('[[first.choices]]\nexercise = "f"\ndiffers = "?"\nreplace = ["a", "b"]\nby = [["c"]]', "has 2 texts"),
        ("[first]\nname = {}", "name"),
        ("first =", "Invalid|invalid"),
    ):
        (tmp_path / "variants.toml").write_text(content)
        with pytest.raises(VariantError, match=problem) as raised:
            read_changes(tmp_path, "first")
        assert "variants.toml" in str(raised.value)
    assert DeclaredChanges() == read_changes(tmp_path / "nowhere", "first")


def test_an_alternative_that_is_another_exercise_is_refused():
    """If a choice changes the check but not the answer, the error names the exercise, and no notebook is created."""
    cells = [
        code("def double(x):\n    return 2 * x", nbgrader={"grade_id": "double", "solution": True, "grade": False}),
        code("assert double(3) == 6", nbgrader={"grade_id": "test_double", "grade": True, "solution": False}),
    ]
    wrong = DeclaredChanges(choices=(ExerciseChoice("test_double", "?", ("== 6",), (("== 9",),)),))
    right = DeclaredChanges(choices=(ExerciseChoice("test_double", "?", ("== 6", "2 * x"), (("== 9", "3 * x"),)),))
    seeds = range(6)
    proven = [VariantProof("first", vary(notebook(*cells), seed, right), seed).prove().exercises for seed in seeds]
    assert {"2", "3"} == {re.search(r"(\d) \* x", double.answers[0])[1] for [double] in proven}
    with pytest.raises(VariantError, match="AssertionError"):
        [VariantProof("first", vary(notebook(*cells), seed, wrong), seed).prove() for seed in seeds]


def test_shared_answers_are_counted_by_running():
    """Two variants with other factors share no answer, and one variant shares all with itself under another seed."""
    cells = [
        code("def double(x):\n    return 2 * x", nbgrader={"grade_id": "double", "solution": True, "grade": False}),
        code("assert double(3) == 6", nbgrader={"grade_id": "test_double", "grade": True, "solution": False}),
    ]
    other = DeclaredChanges(choices=(ExerciseChoice("test_double", "?", ("== 6", "2 * x"), (("== 9", "3 * x"),)),))
    proven = {seed: [VariantProof("first", vary(notebook(*cells), seed, other), seed).prove()] for seed in range(6)}
    texts = {seed: proven[seed][0].exercises[0].answers[0] for seed in proven}
    found = count_shared_answers(proven, pairs=30)
    same = sum(texts[one] == texts[two] for one in texts for two in texts if one != two)
    assert (30, (30, same), (0, 0)) == (found.pairs, found.programs, found.predictions)
    assert 0 < same < 30


def test_the_record_says_who_got_which(tmp_path):
    """A student's seed depends only on the course's seed and the name; adding students does not change the others."""
    changes = DeclaredChanges(names={"w": ("q",)})
    record = VariantRecord("7")
    record = record.with_students("first", changes, {"ann": record.seed_of("ann")}, {})
    record.write(tmp_path)
    again = read_record(tmp_path).with_students("first", changes, {"ben": record.seed_of("pair-1")}, {})
    assert {"ann": VariantRecord("7").seed_of("ann"), "ben": VariantRecord("7").seed_of("pair-1")} == again.students(
        "first", changes
    )
    assert {} == again.students("second", changes)
    assert VariantRecord("8").seed_of("ann") != VariantRecord("7").seed_of("ann")


def test_a_replaced_notebook_stays_known():
    """Students with another variant, and those who submitted the notebook of all, are named; their former ones are kept."""
    changes = DeclaredChanges()
    record = VariantRecord("7").with_students("first", changes, {"ann": 1, "ben": 2}, {})
    replaced = record.replaced("first", {"ann": 3, "ben": 2, "cleo": 4, "dora": 5}, submitted=["ben", "cleo"])
    assert {"ann": 1, "cleo": None} == replaced
    record = record.with_students("first", changes, {"ann": 3, "cleo": 4}, replaced)
    record = record.with_students("first", changes, {"ann": 6}, record.replaced("first", {"ann": 6}, []))
    assert {"ann": [1, 3], "cleo": [None]} == record.assignments["first"].former


def test_a_record_that_does_not_fit_is_refused(tmp_path):
    """After a change of the declarations, notebooks cannot be created again, and a broken file is not treated as empty."""
    VariantRecord("7").with_students("first", DeclaredChanges(), {"ann": 1}, {}).write(tmp_path)
    with pytest.raises(VariantError, match="section first of variants.toml has changed"):
        read_record(tmp_path).students("first", DeclaredChanges(names={"w": ("q",)}))
    (tmp_path / FILE).write_text("{")
    with pytest.raises(VariantError, match="cannot be read"):
        read_record(tmp_path)


@pytest.mark.parametrize(("carried", "owners"), [(2, None), (1, None), (None, None), (3, ["bo"]), (4, ["bo"]), (9, [])])
def test_a_submitted_variant_belongs_to_whom_it_was_given(carried, owners):
    """A student may submit a notebook that was replaced since; another student's one, also a former one, is reported."""
    assert owners == other_owners("ann", carried, {"ann": 2, "bo": 3}, {"ann": [1], "bo": [4]})

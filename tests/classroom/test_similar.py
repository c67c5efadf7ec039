"""Similarity finds planted copies, however they are disguised, and leaves independent answers alone."""

import json
import random

import nbformat
import pytest

pytest.importorskip("copydetect", reason="the extra `similar` is not installed")

from autograder import cli
from autograder.classroom.report.wrong_answers import without_comments
from autograder.classroom.similar_report import fingerprints, similar_pairs, similar_report
from autograder.errors import InputError
from tests.classroom.independent_answers import DISGUISES, STUB, independent
from tests.classroom.made_class import _known as known


def class_with_copies(size: int, steps: int, seed: int) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """Return the answers of a class, and the disguise of each planted pair."""
    chance = random.Random(seed)
    answers = {f"s{number:03}": independent(chance, steps) for number in range(size)}
    planted = {}
    for number, (name, disguise) in enumerate(DISGUISES.items()):
        answers[f"c{number}"] = disguise(answers[f"s{number:03}"], chance)
        planted[f"c{number}", f"s{number:03}"] = name
    return {student: without_comments(code) for student, code in answers.items()}, planted


@pytest.mark.parametrize(("steps", "precision", "recall"), [(5, 0.9, 0.5), (9, 0.98, 0.95), (15, 0.98, 0.95)])
def test_planted_copies_are_found_and_independent_answers_are_not(steps, precision, recall):
    """Five disguises in classes of 40 and 200, three classes each: precision and recall are printed, and held."""
    found, true, planted_count = 0, 0, 0
    for size in (40, 200):
        for seed in range(3):
            answers, planted = class_with_copies(size, steps, seed)
            given = {student: [code] for student, code in answers.items()}
            pairs = {pair.students for pair in similar_pairs(given, [STUB])}
            found, true = found + len(pairs), true + len(pairs & set(planted))
            planted_count += len(planted)
    print(f"{steps} steps: precision {true}/{found}, recall {true}/{planted_count}")
    assert true >= precision * found
    assert true >= recall * planted_count


def test_what_most_write_is_no_evidence():
    """If everybody has the model answer or the released code, there is no pair, in a small class and in a large one."""
    answer = independent(random.Random(1))
    assert [] == similar_pairs({f"s{number}": [answer] for number in range(30)})
    assert [] == similar_pairs({"ann": [answer], "ben": [answer]}, [answer])
    for count in (4, 20):
        pairs = similar_pairs({"ann": [answer], "ben": [answer], **others(count)})
        assert [("ann", "ben")] == [pair.students for pair in pairs]


def others(count: int) -> dict[str, list[str]]:
    """Return answers of others."""
    return {f"s{number}": [independent(random.Random(100 + number))] for number in range(count)}


def test_lines_are_those_that_are_shared():
    """Most of the copied lines are marked, and few others: one that begins a copied part, or has the same form."""
    own, copied = independent(random.Random(7)), independent(random.Random(8))
    both = own.replace("    return total", "") + copied.partition("total = x.sum()\n")[2]
    [pair] = similar_pairs({"ann": [both], "ben": [copied], **others(20)})
    lines = both.splitlines()
    begin = len(own.splitlines()) - 1
    marked = {number for number in pair.lines[0] if lines[number].strip()}
    assert len(marked & set(range(begin, len(lines)))) >= 0.7 * (len(lines) - begin)
    assert len([number for number in marked if number < begin - 1]) <= 2


@pytest.mark.parametrize("code", ["", "x", "not python ((", "é" * 100, "\n" * 50])
def test_any_text_has_fingerprints(code):
    """Empty, short, and invalid code gives no fingerprints and raises no error."""
    assert {} == fingerprints([code, code])


def test_fingerprints_lead_to_lines_of_the_code():
    """Each fingerprint has the index of a line; the second copy of an answer adds no fingerprints."""
    code = independent(random.Random(7))
    lines = fingerprints([code])
    assert set(lines.values()) <= set(range(len(code.splitlines())))
    assert len(lines) > 5
    assert lines.keys() == fingerprints([code, code]).keys()
    later = fingerprints(["first = 1", code])  # two lines below: one of the first answer, and an empty one
    assert {mark: line + 2 for mark, line in lines.items()} == later


def test_the_command_writes_a_page(tmp_path, capsys):
    """The page names the pair, escapes its code, and loads nothing; with one submission there is nothing to compare."""
    answers, planted = class_with_copies(30, 9, 3)
    write(tmp_path / "source" / "one" / "one.ipynb", STUB)
    write(tmp_path / "autograded" / "only" / "one" / "one.ipynb", STUB)
    with pytest.raises(InputError, match="has 1 graded submissions"):
        similar_report("one", tmp_path)
    for student, code in answers.items():
        write(tmp_path / "autograded" / student / "one" / "one.ipynb", code + '\nhtml = "<script>alert(1)</script>"')
    assert 2 == cli.main(["similar", "one", "--course", str(tmp_path), "--out", str(tmp_path)])
    assert "cannot be written to (Is a directory)" in capsys.readouterr().err
    assert 0 == cli.main(["similar", "one", "--course", str(tmp_path), "--out", str(tmp_path / "page.html")])
    assert "5 pairs" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text("utf-8")
    assert all(student in page for pair in planted for student in pair)
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def write(path, code) -> None:
    """Write a notebook with one answer and one test."""
    path.parent.mkdir(parents=True, exist_ok=True)
    test = known("test")["nbgrader"] | {"grade": True, "solution": False, "points": 1}
    cells = [
        nbformat.v4.new_code_cell(code, metadata=known("answer")),
        nbformat.v4.new_code_cell("assert True", metadata={"nbgrader": test}),
    ]
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=cells)), "utf-8")

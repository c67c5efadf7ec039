"""Texts outside of the notebooks are in the reader's language: notes of a verdict, pages, commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jinja2
import nbformat
import pytest
from msgspec import to_builtins
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder import cli, watch
from autograder.check.attempt_picture import describe
from autograder.course.book.make_book import require_addresses
from autograder.errors import AutograderError
from autograder.grade.batch.feedback_page import page_html
from autograder.locale.languages import LANGUAGES, METADATA, SOURCE, VARIABLE, use_language
from autograder.locale.line_breaks import columns
from autograder.locale.messages import Message
from autograder.locale.stored_messages import stored
from autograder.locale.translations import known_language, localized
from autograder.tape import explain_program
from autograder.tape.atlas.atlas_text import words_on_node
from autograder.tape.explain import record_program
from autograder.tape.internals.support import require_internals
from autograder.tape.oracle.excerpt import Scope
from autograder.tape.recording.verdict_types import Harm, Place
from autograder.tape.repair.trial.program_factory import factory_of_text
from autograder.view import as_html, as_screen, as_text
from autograder.view.assets import read_asset
from tests.grade import plain_course
from tests.tape.graph_fault_programs import PROGRAMS, FaultyProgram
from tests.translations.collect import page_templates

CHINESE = re.compile(r"[\u4e00-\u9fff]")
SENTENCE = re.compile(r"\b[a-z]{3,} [a-z]{2,} [a-z]{2,} [a-z]{2,}\b")
"""Four English words in a row: no code has them."""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_notes_on_graph_faults_are_chinese(program: FaultyProgram) -> None:
    """Each kind of graph fault has a complete Chinese sentence, from a recording whose notes are English.

    A note that cites a warning of PyTorch is left out.
    """
    recording = explain_program(factory_of_text(program.source, "<program>"), repair=False)
    assert not CHINESE.search(" ".join(recording.verdict.notes))
    with use_language("zh-CN"):
        told = [localized(note) for note in recording.verdict.notes if "PyTorch warned here" not in note]
        shown = as_text(recording) + as_screen(recording)
    assert told
    assert all(CHINESE.search(note) and not SENTENCE.search(note) for note in told), told
    assert all(note in shown for note in told[:1])


NO_WORDS = ("similar.html.j2", "open_me_first.html.j2", "binder.html")
"""The page on similar answers and the student's page of instructions are English, and `binder.html` is an address."""


@pytest.mark.parametrize(
    "template",
    [path for path in page_templates() if path.name not in NO_WORDS and path.suffix != ".css"],
    ids=lambda path: path.name,
)
def test_templates_have_no_words_of_their_own(template: Path) -> None:
    """Every word of a page is inside `_( … )`, where a translator finds it."""
    text = jinja2.Environment().lex(template.read_text("utf-8"))
    data = "".join(value if kind == "data" else " x " for _, kind, value in text)
    if template.suffix == ".js":
        words = SENTENCE.findall(re.sub(r"//.*", "", data))
    else:
        bare = re.sub(r"<(style|script)\b.*?</\1>|<code>.*?</code>|<[^>]*>|&\w+;", " ", data, flags=re.DOTALL)
        words = re.findall(r"\b[A-Za-z]{3,}\b", bare.replace("{", "").replace("}", ""))
    assert [] == words


def test_feedback_follows_the_notebook() -> None:
    """A page is in the language that the notebook names: its heading, the states, what to do next, why the program ended."""
    test = plain_course.known(new_code_cell("assert f()"), "one", points=2)
    test.metadata["autograder"] = {"status": "not run"}
    ended = Message("grade.time_limit|it exceeded its time limit")
    about = {"ended": str(ended), "messages": to_builtins(stored(ended))}
    book = new_notebook(cells=[new_markdown_cell("# 一"), test], metadata={METADATA: "zh-CN", "autograder": about})
    page = page_html(nbformat.from_dict(book), {"notebook": "one", "score": 0, "max_score": 2, "late_penalty": 0})
    for words in ('<html lang="zh-CN">', "你的 notebook 没有运行到最后：它超时了", "没有运行", "0/2 分", "下一步："):
        assert words in page
    assert not SENTENCE.search(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL))


def test_the_index_of_errors_is_searched_in_both() -> None:
    """The message is PyTorch's, in English; the explanation is in the reader's language."""
    from autograder.course.learner.error_index import error_rows

    english = error_rows()
    with use_language("zh-CN"):
        chinese = error_rows()
    assert [row.parts for row in english] == [row.parts for row in chinese]
    assert all(CHINESE.search(row.happened) for row in chinese)


ENDS = ("raise SystemExit(2)", "input()", "raise MemoryError", "import none_of_this", "(", "raise SystemExit('bad')")


def recorded(source: str) -> None:
    """Record a program that cannot be explained."""
    record_program(factory_of_text(source, "mine.py").original, scope=Scope(shown=8))


@pytest.mark.parametrize("refused", [
    *(partial(recorded, source) for source in ENDS),
    lambda: read_asset("none.js"),
    lambda: require_internals(object()),
    lambda: watch("bits"),  # type: ignore[arg-type]
    lambda: known_language("xx"),
    lambda: require_addresses("example.org", ""),
])  # fmt: skip
def test_a_refusal_is_shown_in_chinese(refused: Callable[[], object]) -> None:
    """A program that ends, a missing file of the installation, an older PyTorch, and unknown words and addresses."""
    with pytest.raises(AutograderError) as found:
        refused()
    with use_language("zh-CN"):
        told = localized(str(found.value))
    assert CHINESE.search(told)
    assert not SENTENCE.search(told), told


@pytest.mark.parametrize("verb", ["lab", "check", "explain", "errors", "book"])
def test_the_help_of_a_learner_s_command_is_chinese(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The effect of each option, and argparse's own words; no line is wider than 80 columns."""
    with use_language("zh-CN"), pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    told = capsys.readouterr().out
    assert told.startswith("用法：")
    assert "显示这条帮助信息并退出" in told
    assert not re.search(r"\b[a-z]{3,} [a-z]{2,} [a-z]{2,}\b", told)
    assert max(map(columns, told.splitlines())) <= 80


def test_a_page_of_explain_is_chinese() -> None:
    """Its language is declared for screen readers, and folded parts have Chinese summaries."""
    with use_language("zh-CN"):
        page = as_html(
            explain_program(
                factory_of_text("import torch\n\ntorch.ones(1, requires_grad=True).sum().backward()\n", "f.py"),
                repair=False,
            )
        )
    assert '<html lang="zh-CN">' in page
    assert CHINESE.search(page.partition("<summary>")[2].partition("<")[0])


def test_without_babel_chinese_falls_back_to_english() -> None:
    """If `explain` is installed alone, translations are not read; the command still lists the available options."""
    told = "import sys; sys.modules['babel'] = None; from autograder.cli import main; main(['explain', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, env=os.environ | {VARIABLE: "zh-CN"}
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "do not search for fixes" in done.stdout


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_what_to_write_instead_is_left_to_the_learner_in_every_language(spoken: str) -> None:
    """The row names the tensor that the operation saved; the atlas also has a replacement, which would be the answer."""
    written, saved = Place("f.py", 3, "a += 1"), Place("f.py", 2, "a = w.exp()")
    harm = Harm("result of ExpBackward0", (written,), None, saved, "ExpBackward0", 0, 1, True, edge=1)
    with use_language(spoken):
        told, kept, whole = describe(harm), words_on_node("ExpBackward0", advice=False), words_on_node("ExpBackward0")
        assert kept in told
        assert whole.startswith(kept)
        assert whole.removeprefix(kept).strip(":： ") not in told
        assert spoken == SOURCE or not re.search("[(,;]| of ", told)

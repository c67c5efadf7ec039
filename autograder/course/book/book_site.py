"""The pages of the book in one language, generated from the recorded notebooks."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from autograder.course.book.block_pages import ROOT_PLACEHOLDER, BlockPages, Section
from autograder.course.book.lesson_blocks import Block, ProseBlock, QuestionBlock
from autograder.course.book.markdown_text import search_entry
from autograder.course.catalogue import Lesson
from autograder.errors import html_with_code
from autograder.locale.languages import SOURCE, language
from autograder.locale.line_breaks import columns
from autograder.locale.translations import translated, translated_templates
from autograder.tape.atlas.atlas_text import load_atlas, sentence
from autograder.tape.recording.verdict_types import OUTCOMES
from autograder.view.assets import read_asset
from autograder.view.draw.plots import font_families
from autograder.view.text.headline import meaning

BOOK = Path(__file__).resolve().parent


def page_templates() -> jinja2.Environment:
    """Return the templates for the current language; values are escaped."""
    templates = translated_templates(BOOK / "templates", undefined=jinja2.StrictUndefined, lstrip_blocks=True)
    templates.globals |= {"language": language(), "meaning": meaning, "lab_command": lab_command}
    return templates


def lab_command(lesson: str) -> str:
    """Return the command that opens a lesson in JupyterLab in the current language."""
    chosen = "" if language() == SOURCE else f" --language {language()}"
    return f"python3 -m autograder lab {lesson}{chosen}"


WIDTH, HEIGHT, DPI = 1200, 630, 100  # the size in pixels, in the usual proportions of link previews

INK, SOFT, PAPER, LINE = "#1b1f24", "#57606a", "#ffffff", "#d3d9e0"
MOST_LINES = 9


def can_draw(words: str) -> bool:
    """Return whether this machine has fonts for a text; wide (East Asian) letters need special ones."""
    return columns(words) == len(words) or bool(font_families())


def preview_card(title: str, program: str, question: str) -> bytes:
    """Return a PNG of 1200 × 630 pixels: title, first nine lines of the program, question and outcomes, but not the answer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=PAPER)
    words: dict[str, Any] = {"family": ["DejaVu Sans", *font_families()]}
    code: dict[str, Any] = {"family": ["DejaVu Sans Mono", *font_families()]}
    figure.text(0.06, 0.86, title, size=34, weight="bold", color=INK, va="center", **words)
    lines = [line[:62] for line in program.splitlines()[:MOST_LINES]]
    figure.text(0.06, 0.76, "\n".join(lines), size=17, color=INK, va="top", linespacing=1.4, **code)
    figure.text(0.06, 0.17, question, size=20, color=SOFT, va="center", **words)
    for number, outcome in enumerate(OUTCOMES):
        box = {"boxstyle": "round,pad=0.45", "facecolor": PAPER, "edgecolor": LINE, "linewidth": 2}
        figure.text(0.065 + 0.225 * number, 0.075, outcome, size=17, color=INK, va="center", bbox=box, **code)
    written = io.BytesIO()
    figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()


START = "start"  # the course's first notebook; the front page links to its page

TEASER = "prediction_late_write"
"""The question on the front page, if the course has it; otherwise, the first question is used."""


@dataclass(frozen=True)
class BookOptions:
    """The options of a book."""

    # the languages of the book, each as its HTML code ("en") and its own name; this site is in the current language
    languages: tuple[tuple[str, str], ...]
    torch: str  # the release of PyTorch that made the recordings
    # the address where the book will be published, with a trailing slash; "" if unknown. Link previews need it
    address: str = ""
    repository: str = ""  # the address from which to clone the project; "" if unknown


class BookSite:
    """Generates the files in the current language; `files` contains them by path inside the language's folder."""

    def __init__(self, options: BookOptions):
        self.options = options
        self.files: dict[str, str | bytes] = {}
        self.embeds: dict[str, str] = {}
        self.search: list[tuple[str, str, str, str, str]] = []
        self.templates = page_templates()
        self.templates.globals["repository"] = options.repository

    def write(self, lessons: Sequence[tuple[Lesson, list[Block]]], pages: Sequence[tuple[str, list[Block]]]) -> None:
        """Generate every page: the lessons with their blocks, in the course's order, and the other notebooks by name."""
        titles = {name: _title(blocks) for name, blocks in pages}
        self.shelf = [
            *((f"{name}.html", title) for name, title in titles.items() if name != START),
            ("atlas.html", translated("Atlas")),
            ("jupyterlab.html", translated("In JupyterLab")),
        ]
        written = [self._write_lesson(lesson, blocks, lessons) for lesson, blocks in lessons]
        for name, blocks in pages:
            self._write_page(name, titles[name], blocks)
        self._write_atlas()
        self._page(
            "jupyterlab.html", "jupyterlab.html", translated("In JupyterLab"), lessons=[lesson for lesson, _ in lessons]
        )
        self._write_index([lesson for lesson, _ in lessons], written, START in titles)
        self.files["words.js"] = self.templates.get_template("words.js").render()
        self.files["search.js"] = f"book.receiveIndex({json.dumps(self.search, ensure_ascii=False)});\n"

    def _write_lesson(
        self, lesson: Lesson, blocks: list[Block], lessons: Sequence[tuple[Lesson, Any]]
    ) -> list[Section]:
        writer = BlockPages(self.templates, lesson.name)
        sections = writer.sections(blocks)
        names = [lesson.name for lesson, _ in lessons]
        at = names.index(lesson.name)
        questions = [question for section in sections for question in section.questions]
        card = f"cards/{lesson.name}.png" if can_draw(lesson.title) else ""
        for whole, path in ((False, f"{lesson.name}.html"), (True, f"outcomes/{lesson.name}.html")):
            self._page(
                "lesson.html", path, lesson.title, lesson=lesson, sections=sections, whole=whole, questions=questions,
                before=lessons[at - 1][0] if at else None, after=lessons[at + 1][0] if at + 1 < len(lessons) else None,
                description=translated("; ").join(aim.can for aim in lesson.aims), card=card,
            )  # fmt: skip
        first = next((block.source for block in blocks if isinstance(block, QuestionBlock)), "")
        if card:
            self.files[card] = preview_card(lesson.title, first, translated("What will this program do?"))
        self._write_blocks(writer, sections)
        return sections

    def _write_blocks(self, writer: BlockPages, sections: Sequence[Section]) -> None:
        """Add a notebook's text to the search, and its pictures, with a page for each, to be embedded in other sites."""
        for section in sections:
            address = f"{writer.lesson}.html#{section.id}"
            self.search.append(search_entry(address, section.title, section.html, section.words))
        self.files |= writer.files
        self.embeds |= writer.embeds
        for name, html in writer.embeds.items():
            self._page(
                "embed.html", f"pictures/{name}.html", name, html=html, lesson=writer.lesson, anchor=name.split("/")[1]
            )

    def _write_page(self, name: str, title: str, blocks: list[Block]) -> None:
        writer = BlockPages(self.templates, name)
        sections = writer.sections(blocks)
        self._page("page.html", f"{name}.html", title, sections=sections, whole=False)
        if any(section.questions for section in sections):
            self._page("page.html", f"outcomes/{name}.html", title, sections=sections, whole=True)
        self._write_blocks(writer, sections)

    def _write_atlas(self) -> None:
        atlas = load_atlas()
        rows = [
            (operation.key, f"op-{operation.key.replace(' ', '-')}", Markup(html_with_code(sentence(operation))))
            for operation in atlas.operations
        ]
        title = translated("Tensors that operations save")
        self._page("atlas.html", "atlas.html", title, rows=rows, pytorch=atlas.pytorch)
        for name, anchor, words in rows:
            self.search.append(search_entry(f"atlas.html#{anchor}", name, words))

    def _write_index(self, lessons: list[Lesson], written: list[list[Section]], started: bool) -> None:
        questions = [[question for section in sections for question in section.questions] for sections in written]
        self.files["timeline.svg"] = read_asset("screenshots/timeline.svg")
        self._page(
            "index.html", "index.html", translated("See what autograd saves, and fix wrong gradients"),
            lessons=list(zip(lessons, questions, strict=True)), teaser=self._teaser(),
            card=f"cards/{lessons[0].name}.png" if lessons else "", started=started,
        )  # fmt: skip

    def _teaser(self) -> str:
        """Return a question for the front page, so that a visitor starts with a prediction."""
        asked = {name: html for name, html in self.embeds.items() if 'class="question"' in html}
        return next(
            (html for name, html in asked.items() if name.endswith(f"/{TEASER}")), next(iter(asked.values()), "")
        )

    def _page(self, template: str, path: str, title: str, **values: Any) -> None:
        """Render a page, and complete the links inside its blocks for the page's folder."""
        root = "../" * path.count("/")
        known = {
            "path": path, "root": root, "title": title, "shelf": self.shelf, "torch": self.options.torch, "card": "",
            "address": f"{self.options.address}{language()}/" if self.options.address else "",
            "languages": [pair for pair in self.options.languages if pair[0] != language()],
            "description": translated("Predict the outcome of a few lines of PyTorch, and see what autograd saved."),
        }  # fmt: skip
        text = self.templates.get_template(template).render(known | values)
        self.files[path] = text.replace(ROOT_PLACEHOLDER, root)


def _title(blocks: Sequence[Block]) -> str:
    """Return the first heading of a notebook."""
    first = next((block.markdown for block in blocks if isinstance(block, ProseBlock)), "")
    return first.strip().partition("\n")[0].removeprefix("# ").strip()

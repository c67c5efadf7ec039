"""The blocks of one notebook as HTML in sections, and the files of its pictures.

The text after a question may contain the answer, so it is packed with the question's verdicts and shown after an
answer.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
import msgspec

from autograder.course.book.lesson_blocks import Block, CodeBlock, ExerciseBlock, PlayTable, ProseBlock, QuestionBlock
from autograder.course.book.markdown_text import code_html, headings, markdown_html, plain, verdict_html
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.view.draw.html import describe_picture, static_frame_number
from autograder.view.draw.svg import draw_picture
from autograder.view.draw.timeline import draw_timeline, scene_timeline
from autograder.view.scene.composition import Scene, build_scene
from autograder.view.scene.timeline import timeline_of, timeline_text
from autograder.view.text.report import as_text


class Picture(msgspec.Struct, frozen=True):
    """A picture of one frame of a scene."""

    name: str  # its address inside the book's folder of pictures, such as "02_mutating_a_saved_tensor/early_zero"
    words: str  # a description of the picture
    # the size of the static picture in pixels
    width: int
    height: int
    steps: int  # the number of frames in the scene


def packed_script(name: str, content: dict[str, Any]) -> str:
    """Return a classic script that passes a picture's content to the page, compressed.

    A classic script works with `file://`, unlike `fetch` and modules. Because the content is compressed, a reader of
    the page's source does not see answers by accident.
    """
    packed = base64.b64encode(zlib.compress(msgspec.json.encode(content), 9)).decode()
    return f"book.receive({json.dumps(name)}, {json.dumps(packed)});\n"


def _size(svg: str) -> tuple[int, int]:
    """Return the width and height of an SVG document that `draw_picture` wrote."""
    size = re.match(r"<svg [^>]*?width='(\d+)' height='(\d+)'", svg)
    assert size is not None
    return int(size[1]), int(size[2])


WORTH_SHARING = 60  # bytes of JSON from which on a repeated part is stored only once


def table_script(name: str, table: PlayTable) -> str:
    """Return the script, in which the scenes share equal parts."""
    scenes = [build_scene(tried.recording) for tried in table.tried]
    tried = [
        {
            "key": tried.key, "outcome": tried.recording.verdict.outcome, "sentence": tried.sentence, "scene": scene,
            "passes": tried.passes, "said": verdict_html(tried.said),
        }
        for tried, scene in zip(table.tried, scenes, strict=True)
    ]  # fmt: skip
    cards = [
        {"id": card.id, "fixed": card.is_fixed, "forms": [[translated(form.name), form.text] for form in card.forms]}
        for card in table.program.cards
    ]
    about = {"given": table.program.as_given.key, "header": table.program.header, "spare": list(table.program.spare)}
    return packed_script(name, {"cards": cards} | about | share(msgspec.to_builtins(tried)))


def share(value: Any) -> dict[str, Any]:
    """Return `value` as {"parts": […], "value": …}, where {"$": n} refers to the part n; a part may refer to earlier ones.

    The value itself must not have the key "$"; neither a field of a recording nor a name of Python is written so.
    """
    often = {text for text, times in Counter(_texts(value)).items() if times > 1}
    parts: dict[bytes, int] = {}
    places: list[Any] = []

    def shared(part: Any) -> Any:
        if not isinstance(part, dict | list):
            return part
        text = msgspec.json.encode(part)
        if text in parts:
            return {"$": parts[text]}
        made = [shared(item) for item in part] if isinstance(part, list) else {k: shared(v) for k, v in part.items()}
        if text not in often:
            return made
        parts[text] = len(places)
        places.append(made)
        return {"$": parts[text]}

    return {"value": shared(value), "parts": places}


def _texts(value: Any) -> Iterator[bytes]:
    """Yield the JSON of every container in a value that is large enough to share."""
    if isinstance(value, dict | list):
        text = msgspec.json.encode(value)
        if len(text) >= WORTH_SHARING:
            yield text
            for item in value.values() if isinstance(value, dict) else value:
                yield from _texts(item)


ROOT_PLACEHOLDER = "@root@/"
"""A placeholder in a block's HTML for the relative path to the language's folder, because pages are at several depths."""


@dataclass
class Section:
    """A part of a page under one heading."""

    id: str  # the anchor, which is the same in every language
    title: str  # the heading
    html: str = ""  # the initial contents of the page
    whole: str = ""  # the contents with every answer, for readers without scripts
    words: str = ""  # the text and the programs with every answer, for the search
    questions: list[str] = field(default_factory=list)  # the ids of its questions in order


class BlockPages:
    """Converts the blocks of one lesson."""

    def __init__(self, templates: jinja2.Environment, lesson: str):
        templates.globals["root_mark"] = ROOT_PLACEHOLDER
        self.macros: Any = templates.get_template("blocks.html").module
        self.lesson = lesson  # the notebook's name, which is also the folder of its pictures
        # text by path, relative to the folder of the language: scripts and static pictures
        self.files: dict[str, str] = {}
        self.embeds: dict[str, str] = {}  # picture's name → the HTML of its own page
        self._names: set[str] = set()
        self._scenes: dict[str, Any] = {}

    def sections(self, blocks: Sequence[Block]) -> list[Section]:
        """Return the page's sections; the first one contains the blocks above the first heading of rank 2."""
        groups: list[list[Block]] = [[]]
        for block in blocks:
            if isinstance(block, ProseBlock) and headings(block.markdown)[:1] and headings(block.markdown)[0][0] == 2:
                groups.append([])
            groups[-1].append(block)
        return [self._section(group) for group in groups if group]

    def _section(self, blocks: list[Block]) -> Section:
        first = blocks[0]
        titles = headings(first.markdown) if isinstance(first, ProseBlock) else []
        section = Section(first.id, plain(markdown_html(titles[0][1])) if titles else "")
        section.questions = [block.id for block in blocks if isinstance(block, QuestionBlock)]
        parts = [self._block(block, above) for above, block in zip([None, *blocks], blocks, strict=False)]
        section.whole = "".join(whole for _, whole in parts)
        section.words = " ".join(
            whole if isinstance(block, ProseBlock) else block.source
            for block, (_, whole) in zip(blocks, parts, strict=True)
        )
        section.html = self._until_answered(blocks, [first for first, _ in parts])
        return section

    def _until_answered(self, blocks: list[Block], parts: list[str]) -> str:
        """Return the parts up to the first question, and write the rest to that question's script."""
        at = next((i for i, block in enumerate(blocks) if isinstance(block, QuestionBlock)), None)
        if at is None:
            return "".join(parts)
        question = blocks[at]
        assert isinstance(question, QuestionBlock)
        below = self._until_answered(blocks[at + 1 :], parts[at + 1 :])
        self._write_question(question, below)
        anchors = re.findall(r' id="([^"]+)"', "".join(parts[at + 1 :]))
        waiting = self.macros.waiting(question.id, anchors) if below else ""
        return "".join(parts[: at + 1]) + str(waiting)

    def _block(self, block: Block, above: Block | None) -> tuple[str, str]:
        """Return a block as the page shows it initially, and with every question answered."""
        if isinstance(block, QuestionBlock):
            return self._question(block)
        if isinstance(block, CodeBlock):
            shown = self._code(block, isinstance(above, ProseBlock) and above.asks)
        elif isinstance(block, ExerciseBlock):
            shown = self._task(block)
        else:
            anchor = f' id="{block.id}"'
            # An English heading may have its cell's id.
            text = markdown_html(block.markdown, ROOT_PLACEHOLDER).replace(anchor, "")
            shown = f'<div class="prose"{anchor}>{text}</div>'
        return shown, shown

    def _task(self, block: ExerciseBlock) -> str:
        table = f"{self.lesson}/{block.id}-table" if block.table else ""
        if block.table:
            self.files[f"pictures/{table}.js"] = table_script(table, block.table)
        return str(self.macros.task(block.id, code_html(block.source), self.lesson, table))

    def _code(self, block: CodeBlock, folded: bool) -> str:
        # the name of the function that the cell runs, which is shorter than the cell's id
        named = re.search(r"^def (\w+)", block.source, re.M)
        name = named[1] if named else block.id
        pictures = [self._figure(shown.recording, self._unique(name), shown.counters) for shown in block.recordings]
        shown = [_display(display) for display in block.displays]
        hidden = pictures or ("autograder.course" in block.source and not block.is_setup)
        source = "" if hidden else code_html(block.source)
        anchor = "" if block.id in self._names else block.id  # the picture already uses this name as its anchor
        return str(self.macros.code(block, anchor, source, "".join(shown), "".join(pictures), folded))

    def _figure(self, recording: Recording, name: str, counters: bool = False) -> str:
        picture, scene = self._draw(recording, name, counters)
        self.files[f"pictures/{picture.name}.js"] = packed_script(picture.name, {"scene": scene})
        shown = str(self.macros.figure(picture, name, as_text(recording)))
        self.embeds[picture.name] = shown
        return shown

    def _question(self, block: QuestionBlock) -> tuple[str, str]:
        code = code_html(block.source)
        picture, self._scenes[block.id] = self._draw(block.recording, block.id)
        ask = str(self.macros.question(block, code, f"{self.lesson}/{block.id}", _choices_by_line(block, code)))
        self.embeds[picture.name] = ask
        right = next(choice for choice in block.choices if choice.is_right)
        answered = self.macros.answered(block, right.answer, picture, as_text(block.recording))
        return ask, str(answered)

    def _write_question(self, block: QuestionBlock, below: str) -> None:
        name = f"{self.lesson}/{block.id}"
        verdicts = [{"right": choice.is_right, "html": verdict_html(choice.verdict)} for choice in block.choices]
        if block.table:
            self.files[f"pictures/{name}-table.js"] = table_script(f"{name}-table", block.table)
        about = {"scene": self._scenes[block.id], "verdicts": verdicts, "value": block.value}
        script = packed_script(name, about | {"rest": below.replace(ROOT_PLACEHOLDER, "")})
        self.files[f"pictures/{name}.js"] = script

    def _draw(self, recording: Recording, name: str, counters: bool = False) -> tuple[Picture, Scene]:
        """Return the static picture of the frame at which a live one opens, and the scene, which opens at its first frame."""
        scene = build_scene(recording, counters=counters)
        timeline = None if counters else timeline_of(recording)
        if timeline is None:
            svg, words = draw_picture(scene, static_frame_number(scene), verdict=not counters), describe_picture(scene)
        else:
            svg, words = draw_timeline(timeline), timeline_text(timeline)
        shown = timeline and scene_timeline(timeline, recording, scene, graph_first=True)
        opened = msgspec.structs.replace(scene, start=0, from_start=True, timeline=shown)
        self.files[f"pictures/{self.lesson}/{name}.svg"] = svg
        return Picture(f"{self.lesson}/{name}", words, *_size(svg), len(scene.frames)), opened

    def _unique(self, name: str) -> str:
        """Return a name that is unique among the pictures of the lesson."""
        names = [name, *(f"{name}-{number}" for number in range(2, 100))]
        chosen = next(name for name in names if name not in self._names)
        self._names.add(chosen)
        return chosen


def _choices_by_line(block: QuestionBlock, code: str) -> list[tuple[str, int | None]]:
    """Return each line of a program as HTML, with the number of the choice that it is."""
    lines = [line.strip() for line in block.source.split("\n")]
    numbers = {
        lines.index(choice.answer): number for number, choice in enumerate(block.choices) if choice.answer in lines
    }
    return [(line, numbers.get(at)) for at, line in enumerate(code.split("\n"))]


def _display(display: dict[str, str]) -> str:
    """Return the richest form of an output that a page without scripts can show."""
    if "image/png" in display:
        words = plain(display.get("text/plain", ""))
        return f'<img class="plot" alt="{words}" src="data:image/png;base64,{display["image/png"]}">'
    return display.get("text/html") or f'<pre class="printed">{html.escape(display.get("text/plain", ""))}</pre>'

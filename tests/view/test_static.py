"""The static picture and the page are small, safe, and readable without scripts."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import msgspec
import pytest

from autograder import view
from autograder.view.draw.html import as_image
from autograder.view.draw.timeline import draw_timeline
from autograder.view.scene.composition import build_scene
from autograder.view.scene.timeline import timeline_of
from tests.view.conftest import SAVED_TAGS

SVG = "{http://www.w3.org/2000/svg}"
LESSON_SNIPPETS = ["raises_backward", "silently_wrong", "correct", "raises_forward", "views"]


class Tags(HTMLParser):
    """Collects the tags of a page, and the text inside each of `script` and `style`."""

    def __init__(self, page: str):
        """Read a page."""
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.inside: dict[str, str] = {}
        self.within = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        """Add a tag with its attributes."""
        self.tags.append((tag, dict(attrs)))
        self.within = f"{tag} {dict(attrs).get('type', '')}".strip()

    def handle_data(self, data):
        """Add a text to those of its tag."""
        self.inside[self.within] = self.inside.get(self.within, "") + data

    def handle_endtag(self, tag):
        """Leaves the tag."""
        self.within = ""


def test_each_frame_is_well_formed(recording):
    """Every frame of every recording is an XML document of shapes."""
    for step in range(1, len(build_scene(recording).frames) + 1):
        tree = ElementTree.fromstring(view.as_svg(recording, step))

        assert f"{SVG}svg" == tree.tag


@pytest.mark.parametrize("name", ["raises_backward", "silently_wrong"])
def test_no_picture_points_at_a_line_that_is_to_be_found(recorded, name):
    """If the verdict leaves out the harmful line, the saved picture does not mark it either; otherwise it does."""
    whole = recorded(name)
    withheld = msgspec.structs.replace(whole, verdict=msgspec.structs.replace(whole.verdict, harms=()))
    marks = [re.findall("✎", unquote(as_image(build_scene(shown)))) for shown in (whole, withheld)]

    assert marks[0]
    assert not marks[1]


def test_names_never_become_markup(hostile):
    """Markup in names, values, source and messages is shown as the text it is."""
    tree = ElementTree.fromstring(view.as_svg(hostile))

    assert {"svg", "title", "style", "g", "rect", "path", "text", "tspan", "circle"} >= {
        element.tag.removeprefix(SVG) for element in tree.iter()
    }
    assert "onerror=alert(1)" in "".join(tree.itertext())


def test_what_xml_cannot_hold_is_replaced(recorded):
    """A control character in the source does not break the picture."""
    import msgspec

    recording = recorded("correct")
    program = msgspec.structs.replace(
        recording.programs[0], source="a = 1  # \x00\x1b\n" + recording.programs[0].source
    )
    tree = ElementTree.fromstring(view.as_svg(msgspec.structs.replace(recording, programs=(program,)), step=1))

    assert "\ufffd\ufffd" in "".join(tree.itertext())


def test_a_step_out_of_range_is_refused(recorded):
    """The message gives the range of steps."""
    with pytest.raises(ValueError, match="has the steps 1 to 10; you asked for step 11"):
        view.as_svg(recorded("raises_backward"), 11)


@pytest.mark.parametrize("name", LESSON_SNIPPETS)
def test_a_saved_output_is_small(recorded, name):
    """A lesson snippet's picture, with all its saved forms, takes at most 30 kB."""
    for predict in (False, True):
        assert 30_000 >= sum(len(form.encode()) for form in view.mimebundle(recorded(name), predict).values())


def test_colours_are_written_out(recorded):
    """No viewer needs CSS variables, and both color schemes are there."""
    picture = view.as_svg(recorded("raises_backward"))

    assert "var(" not in picture
    assert "light-dark" not in picture
    assert "@media(prefers-color-scheme:dark)" in picture


def test_a_prediction_is_not_given_away(recorded):
    """Neither the picture nor its alternative text gives the outcome; only the words that the reader opens do."""
    output = view.mimebundle(recorded("silently_wrong"), predict=True)["text/html"]
    before = unquote(output.split("<details>")[0])

    assert "What will this program do?" in before
    for word in ("silently-wrong", "w2.grad", "will be wrong"):
        assert word not in before
    asked = unquote(view.mimebundle(recorded("silently_wrong"), counters=True)["text/html"].split("<details>")[0])
    assert "version 0" not in asked, "the reader sets the version counters"


SAVED_STYLES = {
    "width", "max-width", "table-layout", "border-collapse", "border-left", "margin-left", "text-align", "padding",
    "vertical-align", "white-space", "overflow-wrap", "font-family", "background-color",
}  # fmt: skip


@pytest.mark.parametrize("predict", [False, True])
def test_the_saved_output_needs_no_script(recorded, hostile, predict):
    """JupyterLab's sanitizer for untrusted notebooks (4.6) keeps every tag, attribute and style; the program adds no tag."""
    for recording in (recorded("views"), recorded("silently_wrong"), hostile):
        tags = Tags(view.mimebundle(recording, predict)["text/html"]).tags
        styles = ";".join(attributes.get("style") or "" for _, attributes in tags)

        assert {tag for tag, _ in tags} <= SAVED_TAGS
        assert {name for _, attributes in tags for name in attributes} <= {"class", "style", "alt", "src"}
        assert {rule.partition(":")[0].strip() for rule in styles.split(";") if rule.strip()} <= SAVED_STYLES
        assert ("img" in {tag for tag, _ in tags}) == predict


def test_a_page_allows_only_itself(hostile):
    """The page's policy allows only its own script and style, by hash."""
    page = view.as_html(hostile)
    read = Tags(page)
    policy = next(attributes["content"] for tag, attributes in read.tags if attributes.get("http-equiv"))

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert (
        f"default-src 'none'; img-src data:; style-src {digest(read.inside['style'])}; "
        f"script-src {digest(read.inside['script module'])}"
    ) == policy
    assert {"plain", "module"} == {a["type"].split("/")[-1] for tag, a in read.tags if tag == "script"}
    assert {"src"} == {name for tag, a in read.tags for name in a if name in ("src", "href", "onerror", "style")}


def test_the_picture_of_the_readme_is_a_timeline(recorded):
    """The file is what this release draws of the program that README describes."""
    shown = (Path(__file__).parents[2] / "assets/screenshots/timeline.svg").read_text("utf-8")
    assert draw_timeline(timeline_of(recorded("silently_wrong"))) == shown


def test_a_page_names_no_other_place(recording):
    """A page holds no URL except SVG's namespace."""
    assert {"http://www.w3.org/2000/svg"} == set(re.findall(r"https?://[\w./-]+", unquote(view.as_html(recording))))

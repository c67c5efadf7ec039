"""HTML and pictures of a submission, reduced by nh3's allow-list to text, tables, lists, emphasis and raster pictures."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections import Counter
from functools import lru_cache

import nh3
from PIL import Image

from autograder.grade.clean.harmless_text import harmless_tex, harmless_text

# fmt: off
TAGS = {
    "a", "abbr", "b", "blockquote", "br", "caption", "code", "col", "colgroup", "dd", "del", "details", "div", "dl", "dt", "em",
    "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "q", "s", "samp",
    "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var",
}
WITH_CONTENT = {
    "script", "style", "title", "template", "noscript", "iframe", "object", "svg", "math", "textarea", "select",
}
# fmt: on
ATTRIBUTES = {
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "abbr": {"title"},
    "ol": {"start"},
    "table": {"border"},
    "td": {"colspan", "rowspan", "align"},
    "th": {"colspan", "rowspan", "align"},
}  # fmt: skip
STYLES = {
    "width", "max-width", "table-layout", "border-collapse", "border-left", "margin-left", "text-align", "padding",
    "vertical-align", "white-space", "overflow-wrap", "font-family", "background-color",
}  # fmt: skip
"""The properties of the grader's own tables (view/draw/timeline.py)."""
MOST_TAGS, MOST_OPEN = 8_000, 150
"""The maximum numbers of tags, and of elements that are open at once: browsers and nh3 take quadratic time for more."""

MOST_REFERENCES, MOST_SEPARATORS = 100_000, 40_000
"""The maximum numbers of ampersands, and of separators of attributes: nh3 (0.3) compares each attribute with all before it."""

PLAIN_TAG = re.compile(
    r"""</?[A-Za-z][A-Za-z0-9-]*(?:\s+[^\s"'<>/=]+(?:\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'=<>`]+))?){0,50}\s*/?>"""
)
TOO_MUCH = "<p>(HTML with too many tags is not shown)</p>"
OPENED = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
VOID = {"br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr", "area", "base", "track", "param"}
VALUES = {
    "href": re.compile(r"(?:https?://|mailto:|#)[^\s\\]*", re.IGNORECASE),
    "style": re.compile(r"(?:rgba\([\d,.]+\)|[\w:;#%., -])*"),
    "align": re.compile("left|right|center"),
} | dict.fromkeys(("width", "height", "colspan", "rowspan", "border", "start"), re.compile("[0-9]{1,4}"))
"""The form of the values of attributes; another attribute may have any value."""
DRAWN = re.compile(r"data:image/svg\+xml[,;].*", re.DOTALL)
FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
LARGEST, MOST_PIXELS = 8 * 2**20, 40_000_000
"""Bytes of a picture, and pixels: a small file can decompress to any number of pixels."""

ADDRESS = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")


def harmless_html(html: str) -> str:
    """Return HTML without scripts, styles, drawings, forms, and addresses that are loaded automatically."""
    return TOO_MUCH if _is_costly(html) else harmless_tex(harmless_text(_SUBMITTED.clean(html)))


@lru_cache(maxsize=256)  # many students have the same pictures
def harmless_page(html: str) -> str:
    """Return HTML cleaned in the same way, but with the grader's own drawings: browsers do not run scripts in a picture."""
    return TOO_MUCH if _is_costly(html) else harmless_tex(_GRADED.clean(html))


def _is_costly(html: str) -> bool:
    """Return whether a text has too many tags or attributes, or tags that are not closed."""
    tags, still_open, depth = OPENED.findall(html), Counter[str](), 0
    # All parsers agree on the end of a tag in the plain form; other tags may have any number of attributes.
    many = sum(map(html.count, " \t\n\f\r/\"'")) > MOST_SEPARATORS and "<" in PLAIN_TAG.sub("", html)
    if many or len(tags) > MOST_TAGS or html.count("&") > MOST_REFERENCES:
        return True
    for closes, name in ((closes, name.lower()) for closes, name in tags):
        if closes and still_open[name]:
            still_open[name] -= 1
            depth -= 1
        elif not closes and name not in VOID:
            still_open[name] += 1
            depth += 1
        if depth > MOST_OPEN:
            return True
    return False


def _filter(name: str, value: str, drawings: bool) -> str | None:
    if name == "src":
        return value if drawings and DRAWN.fullmatch(value) else raster_address(value)
    return value if name not in VALUES or VALUES[name].fullmatch(value) else None


def _cleaner(drawings: bool) -> nh3.Cleaner:
    styled = {tag: ATTRIBUTES.get(tag, set()) | {"style"} for tag in ("table", "td", "code")} if drawings else {}
    return nh3.Cleaner(
        tags=TAGS,
        clean_content_tags=WITH_CONTENT,
        attributes=ATTRIBUTES | styled,
        filter_style_properties=STYLES,
        attribute_filter=lambda _, name, value: _filter(name, value, drawings),
        url_schemes={"http", "https", "mailto", "data"},
        strip_comments=True,
        link_rel="noopener noreferrer",
    )


_SUBMITTED, _GRADED = _cleaner(drawings=False), _cleaner(drawings=True)


def raster_base64(kind: str, text: str) -> str | None:
    """Return a picture's base64 data on one line; None if it is too large, or not a picture of this MIME type."""
    if kind not in FORMATS or len(text) > LARGEST * 4 // 3:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        with Image.open(io.BytesIO(data), formats=[FORMATS[kind]]) as picture:  # reads only the header
            wide, high = picture.size
    except (binascii.Error, ValueError, OSError, SyntaxError, Image.DecompressionBombError):
        return None
    return base64.b64encode(data).decode() if 0 < wide * high <= MOST_PIXELS else None


def raster_address(address: str) -> str | None:
    """Return a data URL that contains a raster picture; None for every other address."""
    parts = ADDRESS.fullmatch(address)
    data = raster_base64(parts[1], parts[2]) if parts else None
    return f"data:{parts[1]};base64,{data}" if parts and data else None

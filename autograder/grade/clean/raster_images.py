"""Pictures made of pixels: the only kind of a submission's pictures that is shown."""

from __future__ import annotations

import base64
import binascii
import io
import re

from PIL import Image

FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
LARGEST, MOST_PIXELS = 8 * 2**20, 40_000_000
"""Bytes of a picture, and pixels: a small file can unpack to any number of them."""

ADDRESS = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)")


def raster_base64(kind: str, text: str) -> str | None:
    """Returns a picture's base64 on one line; None if it is too large, or no picture of this MIME type."""
    if kind not in FORMATS or len(text) > LARGEST * 4 // 3:
        return None
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        with Image.open(io.BytesIO(data), formats=[FORMATS[kind]]) as picture:  # reads the header only
            wide, high = picture.size
    except (binascii.Error, ValueError, OSError, SyntaxError, Image.DecompressionBombError):
        return None
    return base64.b64encode(data).decode() if 0 < wide * high <= MOST_PIXELS else None


def raster_address(address: str) -> str | None:
    """Returns a data URL that holds a picture made of pixels; None for every other address."""
    found = ADDRESS.fullmatch(address)
    data = raster_base64(found[1], found[2]) if found else None
    return f"data:{found[1]};base64,{data}" if found and data else None

"""Keys: the names of the parts of a picture that change from frame to frame.

A frame gives every part that it changes a new state: a class name, or the words of a text element. Python code reads
the fields of a key; in a drawing and in JSON, a key is an opaque text.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Part = Literal["node", "tensor", "fold", "outside", "saved", "alias", "memory", "got", "right", "stop", "line"]
Label = Literal["", "name", "values", "version", "versions", "change", "note"]


class Key(NamedTuple):
    """One part of the picture, or one text inside it.

    Attributes:
        part: "node", "fold" and "tensor" (one without a node) are blocks of the graph, and "outside" is the stub of a
            node outside an opened fold; "saved" is a saved tensor's row and line; "memory" is a storage in the memory
            pane and "alias" a tensor in it; "got", "right" and "stop" are texts above a block while backward visits it;
            "line" is a line of code.
        number: the id in the recording; for a fold, the number of the view that it opens; for a line, its 1-based
            number.
        label: the text of the part; "" for the part itself.
        program: for a line, the 0-based number of its program.
    """

    part: Part
    number: int
    label: Label = ""
    program: int = 0

    def __str__(self) -> str:
        """The key as text in drawings and JSON: "node3", "node3.values", "line0.8"."""
        where = f"{self.program}.{self.number}" if self.part == "line" else str(self.number)
        return f"{self.part}{where}.{self.label}" if self.label else f"{self.part}{where}"

    def text(self, label: Label) -> Key:
        """Return the key of a text inside this part."""
        return self._replace(label=label)

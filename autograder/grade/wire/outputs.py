"""The outputs of a cell in nbformat's form, collected within a budget."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MOST_PARTS = 1_000  # outputs of one cell; a page with more of them is unreadable and takes minutes to create
LARGEST = 1 << 31  # pixels of a picture, for example
MARGIN = 8  # bytes of JSON for each character of the budget; a control character takes six
CUT = "\n... Output truncated ...\n"  # the message of nbgrader (0.9.6, LimitOutput)


class Stream(msgspec.Struct, frozen=True, tag_field="output_type", tag="stream"):
    """Text on stdout or stderr."""

    name: Literal["stdout", "stderr"]
    text: str


class Display(msgspec.Struct, frozen=True, tag_field="output_type", tag="display_data"):
    """The texts shown by `display`, and the sizes of pictures, by MIME type."""

    data: dict[str, str]
    metadata: dict[str, dict[str, int]]


class Result(Display, frozen=True, tag_field="output_type", tag="execute_result"):
    """The value of a cell's last expression, by MIME type."""

    execution_count: int


class Error(msgspec.Struct, frozen=True, tag_field="output_type", tag="error"):
    """An exception, with the lines of its traceback."""

    ename: str
    evalue: str
    traceback: list[str]


Output = Stream | Display | Result | Error  # nbformat's schema of an output, version 4.5; checked with nbformat 5.11


class Outputs:
    """The outputs of one cell after another. Output beyond the budget (in bytes) is cut off, which is not an error."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self._outputs: list[dict[str, Any]] = []
        self._by_identity: dict[str, dict[str, Any]] = {}
        self._clear_next = False

    def stream(self, name: str, text: str) -> None:
        """Add text to stdout or stderr; it is appended to the previous output if that is the same stream."""
        if not text or self._left <= 0:
            return
        whole, text = text, text[: self._left]
        self._left -= len(whole)
        text += CUT if text != whole else ""
        last = self._outputs[-1] if self._outputs and not self._clear_next else None
        if last and last["output_type"] == "stream" and last["name"] == name:
            last["text"] += text
        else:
            self._add({"output_type": "stream", "name": name, "text": text})

    def display(
        self, data: dict[Any, Any], metadata: dict[Any, Any], *, identity: str | None = None, update: bool = False
    ) -> None:
        """Add a display_data output; with `update`, replace the data of the output with this identity."""
        if not self._charge(data):
            return
        if update:
            if identity in self._by_identity:
                self._by_identity[identity].update(_shown(data, metadata))
            return
        output = {"output_type": "display_data"} | _shown(data, metadata)
        self._add(output)
        if identity is not None:
            self._by_identity[identity] = output

    def result(self, data: dict[Any, Any], metadata: dict[Any, Any], execution_count: int) -> None:
        """Add the value of a cell's last expression."""
        if self._charge(data):
            output = {"output_type": "execute_result", "execution_count": execution_count}
            self._add(output | _shown(data, metadata))

    def error(self, name: str, value: str, traceback: list[str]) -> None:
        """Add an error, shortened if it is long, even if the budget is used up."""
        traceback = [line[:20_000] for line in traceback[:100]]
        self._add({"output_type": "error", "ename": name[:200], "evalue": value[:20_000], "traceback": traceback})

    def error_if_none(self, name: str, value: str) -> None:
        """Add the error that ended the cell, unless it was shown already."""
        if not any(output["output_type"] == "error" for output in self._outputs):
            self.error(name, value, ["ERROR: An error occurred while showtraceback was disabled"])

    def clear(self, wait: bool) -> None:
        """Remove the outputs of the cell, at once or when the next output is added."""
        self._clear_next = wait
        if not wait:
            self._outputs.clear()

    def text(self) -> str:
        """Return the text that the cell has written to stdout."""
        return "".join(output["text"] for output in self._outputs if output.get("name") == "stdout")

    def take(self) -> list[dict[str, Any]]:
        """Return the outputs of the cell, and begin those of the next cell."""
        outputs, self._outputs, self._clear_next = self._outputs, [], False
        return outputs

    def _add(self, output: dict[str, Any]) -> None:
        if self._clear_next:
            self._outputs.clear()
            self._clear_next = False
        if len(self._outputs) < MOST_PARTS or output["output_type"] == "error":
            self._outputs.append(output)
        elif self._left > 0:
            self._left = 0
            self._outputs.append({"output_type": "stream", "name": "stdout", "text": CUT})

    def _charge(self, data: dict[str, Any]) -> bool:
        if self._left <= 0:
            return False
        cost = sum(len(str(value)) for value in data.values())
        if cost > self._left:
            self._left = 0
            self._add({"output_type": "stream", "name": "stdout", "text": CUT})
            return False
        self._left -= cost
        return True


def _shown(data: dict[Any, Any], metadata: dict[Any, Any]) -> dict[str, Any]:
    """Return the texts among the forms of a value, and the whole numbers in the metadata of each; nothing else is used."""
    sizes = {kind: about.items() for kind, about in metadata.items() if isinstance(about, dict)}
    return {
        "data": {kind: text for kind, text in data.items() if isinstance(text, str)},
        "metadata": {kind: {k: n for k, n in about if type(n) is int and n < LARGEST} for kind, about in sizes.items()},
    }


class ReceivedOutputs:
    """Reads the outputs that a worker reports, up to a multiple of the budget; a worker that was taken over may ignore it."""

    def __init__(self, budget: int) -> None:
        self._left = MARGIN * budget

    def read(self, data: bytes) -> list[dict[str, Any]]:
        """Return the outputs of one cell. Raise ValueError if they are too large, or do not have a known form."""
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("the cells displayed too much output")
        try:
            outputs = msgspec.json.decode(data, type=list[Output])
        except (msgspec.MsgspecError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)[:80]) from None
        if len(outputs) > MOST_PARTS + 2:
            raise ValueError("the cell produced too many outputs")
        return [msgspec.to_builtins(output) for output in outputs]

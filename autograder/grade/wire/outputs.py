"""The outputs of a cell in nbformat's form, collected within a budget."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

MOST_PARTS = 1_000  # outputs of one cell; a page with more of them is unreadable and takes minutes to create
MARGIN = 8  # bytes of JSON for each character of the budget; a control character takes six
LONGEST_METADATA = 10_000  # bytes of JSON; only the sizes of pictures are used
CUT = "\n... Output truncated ...\n"  # the message of nbgrader (0.9.6, LimitOutput)


class Stream(msgspec.Struct, frozen=True, tag_field="output_type", tag="stream"):
    """Text on stdout or stderr."""

    name: Literal["stdout", "stderr"]
    text: str


class Display(msgspec.Struct, frozen=True, tag_field="output_type", tag="display_data"):
    """The data shown by `display`, by MIME type."""

    data: dict[str, msgspec.Raw]
    metadata: msgspec.Raw


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
        text = self._truncated(text)
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
                self._by_identity[identity].update(data=data, metadata=metadata)
            return
        output = {"output_type": "display_data", "data": data, "metadata": metadata}
        self._add(output)
        if identity is not None:
            self._by_identity[identity] = output

    def result(self, data: dict[Any, Any], metadata: dict[Any, Any], execution_count: int) -> None:
        """Add the value of a cell's last expression."""
        if self._charge(data):
            output = {"output_type": "execute_result", "data": data, "metadata": metadata}
            self._add(output | {"execution_count": execution_count})

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

    def _truncated(self, text: str) -> str:
        kept = text[: self._left]
        self._left -= len(text)
        return kept if len(kept) == len(text) else kept + CUT

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


class ReceivedOutputs:
    """Reads the outputs that a worker reports, up to a multiple of the budget; a worker that was taken over may ignore it."""

    def __init__(self, budget: int) -> None:
        self._left = MARGIN * budget

    def read(self, data: bytes) -> list[dict[str, Any]]:
        """Return the outputs of one cell; raise ValueError if they are too large, or do not have a known form."""
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("the cells displayed too much output")
        try:
            outputs = msgspec.json.decode(data, type=list[Output])
        except (msgspec.MsgspecError, RecursionError, MemoryError) as error:
            raise ValueError(str(error)[:80]) from None
        if len(outputs) > MOST_PARTS + 2:
            raise ValueError("the cell produced too many outputs")
        return [_decoded(output) for output in outputs]


def _decoded(output: Output) -> dict[str, Any]:
    """Return an output in nbformat's form. Data that is not text is not shown, so it is not decoded."""
    if isinstance(output, (Stream, Error)):
        return msgspec.to_builtins(output)
    data = {kind: _text(value) for kind, value in output.data.items()}
    shown: dict[str, Any] = {"output_type": "display_data", "data": data, "metadata": _small(output.metadata)}
    if isinstance(output, Result):
        shown |= {"output_type": "execute_result", "execution_count": output.execution_count}
    return shown


def _text(value: msgspec.Raw) -> str | list[str]:
    try:
        return msgspec.json.decode(value, type=str | list[str])
    except (msgspec.MsgspecError, RecursionError):
        return ""


def _small(value: msgspec.Raw) -> dict[str, Any]:
    try:
        return msgspec.json.decode(value, type=dict[str, Any]) if len(bytes(value)) < LONGEST_METADATA else {}
    except (msgspec.MsgspecError, RecursionError):
        return {}

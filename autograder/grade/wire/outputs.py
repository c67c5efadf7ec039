"""A cell's outputs in nbformat's form, collected within a budget."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

CUT = "\n... Output truncated ...\n"  # nbgrader's own words (0.9.6, LimitOutput)


class Stream(msgspec.Struct, frozen=True, tag_field="output_type", tag="stream"):
    """Text on stdout or stderr."""

    name: Literal["stdout", "stderr"]
    text: str


class Display(msgspec.Struct, frozen=True, tag_field="output_type", tag="display_data"):
    """What `display` showed, by MIME type."""

    data: dict[str, Any]
    metadata: dict[str, Any]


class Result(msgspec.Struct, frozen=True, tag_field="output_type", tag="execute_result"):
    """The value of a cell's last expression, by MIME type."""

    data: dict[str, Any]
    metadata: dict[str, Any]
    execution_count: int


class Error(msgspec.Struct, frozen=True, tag_field="output_type", tag="error"):
    """An exception, with its traceback's lines."""

    ename: str
    evalue: str
    traceback: list[str]


Output = Stream | Display | Result | Error  # nbformat's schema of an output, version 4.5; checked with nbformat 5.11


class Outputs:
    """Collects the outputs of one cell after another. What exceeds the budget (in bytes) is cut off; that is not an error."""

    def __init__(self, budget: int) -> None:
        self._left = budget
        self._outputs: list[dict[str, Any]] = []
        self._by_identity: dict[str, dict[str, Any]] = {}
        self._clear_next = False

    def stream(self, name: str, text: str) -> None:
        """Adds text to stdout or stderr; appends it to the previous output if that is the same stream."""
        if not text or self._left <= 0:
            return
        text = self._afford(text)
        last = self._outputs[-1] if self._outputs and not self._clear_next else None
        if last and last["output_type"] == "stream" and last["name"] == name:
            last["text"] += text
        else:
            self._add({"output_type": "stream", "name": name, "text": text})

    def display(self, data: dict, metadata: dict, *, identity: str | None = None, update: bool = False) -> None:
        """Adds a display_data; with `update`, replaces the data of the one with this identity."""
        if not self._pays(data):
            return
        if update:
            if identity in self._by_identity:
                self._by_identity[identity].update(data=data, metadata=metadata)
            return
        output = {"output_type": "display_data", "data": data, "metadata": metadata}
        self._add(output)
        if identity is not None:
            self._by_identity[identity] = output

    def result(self, data: dict, metadata: dict, execution_count: int) -> None:
        """Adds the value of a cell's last expression."""
        if self._pays(data):
            self._add(
                {
                    "output_type": "execute_result",
                    "data": data,
                    "metadata": metadata,
                    "execution_count": execution_count,
                }
            )

    def error(self, name: str, value: str, traceback: list[str]) -> None:
        """Adds an error, shortened if it is long, even if the budget is used up."""
        traceback = [line[:20_000] for line in traceback[:100]]
        self._add({"output_type": "error", "ename": name[:200], "evalue": value[:20_000], "traceback": traceback})

    def error_if_none(self, name: str, value: str) -> None:
        """Adds the error that ended the cell, unless it was shown already."""
        if not any(output["output_type"] == "error" for output in self._outputs):
            self.error(name, value, ["ERROR: An error occurred while showtraceback was disabled"])

    def clear(self, wait: bool) -> None:
        """Drops the cell's outputs, at once or when the next one is added."""
        self._clear_next = wait
        if not wait:
            self._outputs.clear()

    def text(self) -> str:
        """Returns what the cell has written to stdout."""
        return "".join(output["text"] for output in self._outputs if output.get("name") == "stdout")

    def take(self) -> list[dict[str, Any]]:
        """Returns the cell's outputs and starts the next cell's."""
        outputs, self._outputs, self._clear_next = self._outputs, [], False
        return outputs

    def _add(self, output: dict[str, Any]) -> None:
        if self._clear_next:
            self._outputs.clear()
            self._clear_next = False
        self._outputs.append(output)

    def _afford(self, text: str) -> str:
        kept = text[: self._left]
        self._left -= len(text)
        return kept if len(kept) == len(text) else kept + CUT

    def _pays(self, data: dict[str, Any]) -> bool:
        if self._left <= 0:
            return False
        cost = sum(len(str(value)) for value in data.values())
        if cost > self._left:
            self._left = 0
            self._add({"output_type": "stream", "name": "stdout", "text": CUT})
            return False
        self._left -= cost
        return True

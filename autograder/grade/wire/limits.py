"""The limits of one submission. A submission that exceeds a limit is ended with a reason, and the batch continues."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_type_hints

TIMEOUT_SIGNAL = signal.SIGXCPU
"""The signal with which the grader ends a running cell, and only the cell, in the submission's process."""
MEBIBYTE = 2**20
MAX_WAIT_FACTOR = 3
MIN_WAIT_SECONDS = 60.0  # minimum of the seconds that a submission may be kept waiting, however short its own limit is


@dataclass(frozen=True)
class Setting:
    """The way a teacher sets a limit: as `c.Autograder.NAME` in nbgrader_config.py, or for one run with `grade --NAME`.

    Attributes:
        name: name of the setting.
        help: the unit, and the limited quantity.
        least: the smallest allowed value.
        unit: number of bytes per unit of the setting; 1 if the limit is not an amount of memory.
        is_option: whether `grade` has an option for the setting, and the configuration of a new course has a line for it.
    """

    name: str
    help: str
    least: float
    unit: int = 1
    is_option: bool = False


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one submission, which are the same for all submissions of a batch.

    This is a dataclass, which msgspec can encode as well, because `--help` must work without any package.

    Attributes:
        cell_seconds: time limit of one cell, or of one call that a check makes; nbgrader's default (`Execute.timeout`,
            0.9.6).
        submission_seconds: time limit of all cells and calls of one submission together, and limit of the processor
            time of all its processes together. Both clocks stop while other processes keep the submission waiting for a
            processor, until `MAX_WAIT_FACTOR` times the limit has passed, or a minute if that is longer.
        memory_bytes: memory of all its processes together, in addition to the memory that the worker uses before it
            begins.
        processes: number of processes and threads that may exist at once.
        output_bytes: size of the text and pictures in the outputs of one submission; the rest is cut off, without a
            penalty.
        file_bytes: size of the largest file that it may write.
        disk_bytes: size of its private /tmp and home folder together, which are kept in memory.
        notebook_bytes: size of the submitted notebook without its outputs.
        attachment_bytes: size of all other submitted files.
        attachment_count: number of submitted files and folders other than the notebooks.
        reply_bytes: size of one answer of the worker.
        picture_seconds: time for recording the wrong answers of one submission for the pictures in its feedback; 0
            disables them.
        reply_items: number of values in one answer: numbers, strings, keys, lists and maps; an array of NumPy or
            PyTorch counts as one value.
    """

    cell_seconds: Annotated[float, Setting("cell_seconds", "seconds for one cell", 0.1, is_option=True)] = 30.0
    submission_seconds: Annotated[
        float, Setting("submission_seconds", "seconds for all cells together", 1, is_option=True)
    ] = 120.0
    memory_bytes: Annotated[int, Setting("memory_mib", "MiB of memory", 64, MEBIBYTE, is_option=True)] = 1024 * MEBIBYTE
    processes: Annotated[int, Setting("processes", "processes and threads at once", 1, is_option=True)] = 64
    output_bytes: Annotated[int, Setting("output_mib", "MiB of text and pictures shown", 1, MEBIBYTE)] = 4 * MEBIBYTE
    file_bytes: Annotated[int, Setting("file_mib", "MiB of the largest file written", 1, MEBIBYTE)] = 64 * MEBIBYTE
    disk_bytes: Annotated[int, Setting("disk_mib", "MiB of all files written", 1, MEBIBYTE)] = 128 * MEBIBYTE
    notebook_bytes: int = 20 * MEBIBYTE
    attachment_bytes: int = 50 * MEBIBYTE
    attachment_count: int = 2000
    reply_bytes: int = 64 * MEBIBYTE
    reply_items: int = 2_000_000
    picture_seconds: Annotated[
        float, Setting("picture_seconds", "seconds for the pictures of wrong answers, 0 for none", 0)
    ] = 6.0


@dataclass(frozen=True)
class LimitField:
    """A field of `Limits` that a teacher can set."""

    name: str
    kind: type[int] | type[float]
    setting: Setting

    @property
    def default(self) -> float:
        """The default value, in the unit of the setting."""
        return float(getattr(Limits(), self.name)) / self.setting.unit

    def value(self, given: Any) -> float:
        """Return the value of the field for a value of the setting.

        Raises:
            ValueError: the value is not a number, or too small; the message names the setting.
        """
        kinds = (int,) if self.kind is int else (int, float)
        about = self.setting
        if isinstance(given, bool) or not isinstance(given, kinds) or not about.least <= given < float("inf"):
            raise ValueError(
                f"{about.name} = {given!r} cannot be used; {about.help} are a number from {about.least:g} up"
            )
        return self.kind(given * about.unit)


def limit_fields() -> dict[str, LimitField]:
    """Return the fields that a teacher can set, by the name of the setting."""
    hints = get_type_hints(Limits, include_extras=True)
    parts = {field: get_args(hint) for field, hint in hints.items() if get_args(hint)}
    return {setting.name: LimitField(field, kind, setting) for field, (kind, setting) in parts.items()}


def configuration_lines() -> str:
    """Return the lines of nbgrader_config.py that set the limits for which `grade` has options to their default values."""
    fields = [field for field in limit_fields().values() if field.setting.is_option]
    return "".join(
        f"c.Autograder.{field.setting.name} = {field.default:g}  # {field.setting.help}\n" for field in fields
    )

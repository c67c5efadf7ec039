"""The limits of one submission. A submission that exceeds a limit is ended with a reason, and the batch continues."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

TIMEOUT_SIGNAL = signal.SIGXCPU
"""The signal with which the grader ends a running cell, and only the cell, in the submission's process."""
MEBIBYTE = 2**20
MAX_WAIT_FACTOR = 3
MIN_WAIT_SECONDS = 60.0  # minimum of the seconds that a submission may be kept waiting, however short its own limit is


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one submission, which are the same for all submissions of a batch.

    This is a dataclass, which msgspec can encode as well, because `--help` must work without any package.
    """

    # time limit of one cell, or of one call that a check makes; nbgrader's default (`Execute.timeout`, 0.9.6)
    cell_seconds: float = 30.0
    # time limit of all cells and calls of one submission together, and limit of the processor time of all its processes
    # together. Both clocks stop while other processes keep the submission waiting for a processor, until
    # `MAX_WAIT_FACTOR` times the limit has passed, or a minute if that is longer.
    submission_seconds: float = 120.0
    # memory of all its processes together, in addition to the memory that the worker uses before it begins
    memory_bytes: int = 1024 * MEBIBYTE
    processes: int = 64  # number of processes and threads that may exist at once
    # size of the text and pictures in the outputs of one submission; the rest is cut off, without a penalty
    output_bytes: int = 4 * MEBIBYTE
    file_bytes: int = 64 * MEBIBYTE  # size of the largest file that it may write
    disk_bytes: int = 128 * MEBIBYTE  # size of its private /tmp and home folder together, which are kept in memory
    notebook_bytes: int = 20 * MEBIBYTE  # size of the submitted notebook without its outputs
    attachment_bytes: int = 50 * MEBIBYTE  # size of all other submitted files
    attachment_count: int = 2000  # number of submitted files and folders other than the notebooks
    reply_bytes: int = 64 * MEBIBYTE  # size of one answer of the worker
    # number of values in one answer: numbers, strings, keys, lists and maps; an array of NumPy or PyTorch counts as one
    # value
    reply_items: int = 2_000_000
    # time for recording the wrong answers of one submission for the pictures in its feedback; 0 disables them
    picture_seconds: float = 6.0


@dataclass(frozen=True)
class Setting:
    """The way a teacher sets a limit: as `c.Autograder.NAME` in nbgrader_config.py, or for one run with `grade --NAME`."""

    name: str
    field: str  # of `Limits`
    help: str  # the unit, and the limited quantity
    least: float  # the smallest allowed value
    unit: int = 1  # number of bytes per unit of the setting; 1 if the limit is not an amount of memory
    # whether `grade` has an option for it, and the configuration of a new course has a line for it
    is_option: bool = False

    @property
    def kind(self) -> type[int] | type[float]:
        """The type of the limit."""
        return type(getattr(Limits(), self.field))

    @property
    def default(self) -> float:
        """The default value, in the unit of the setting."""
        return float(getattr(Limits(), self.field)) / self.unit

    def value(self, value: Any) -> float:
        """Return the value of the limit. Raise ValueError, with the setting's name, if it is not a number, or too small."""
        is_number = isinstance(value, (int, self.kind)) and not isinstance(value, bool)
        if not is_number or not self.least <= value < float("inf"):
            raise ValueError(f"{self.name} = {value!r} cannot be used; {self.help} are a number from {self.least:g} up")
        return self.kind(value * self.unit)


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("cell_seconds", "cell_seconds", "seconds for one cell", 0.1, is_option=True),
        Setting("submission_seconds", "submission_seconds", "seconds for all cells together", 1, is_option=True),
        Setting("memory_mib", "memory_bytes", "MiB of memory", 64, MEBIBYTE, is_option=True),
        Setting("processes", "processes", "processes and threads at once", 1, is_option=True),
        Setting("output_mib", "output_bytes", "MiB of text and pictures shown", 1, MEBIBYTE),
        Setting("file_mib", "file_bytes", "MiB of the largest file written", 1, MEBIBYTE),
        Setting("disk_mib", "disk_bytes", "MiB of all files written", 1, MEBIBYTE),
        Setting("picture_seconds", "picture_seconds", "seconds for the pictures of wrong answers, 0 for none", 0),
    )
}
"""The limits that a teacher can set, by the name of the setting."""


def configuration_lines() -> str:
    """Return the lines of nbgrader_config.py that set the limits for which `grade` has options to their default values."""
    options = [setting for setting in SETTINGS.values() if setting.is_option]
    return "".join(f"c.Autograder.{option.name} = {option.default:g}  # {option.help}\n" for option in options)

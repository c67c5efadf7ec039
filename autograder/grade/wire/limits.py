"""What one submission may use. A submission that exceeds a limit is ended with a reason; the batch continues."""

from __future__ import annotations

import signal

import msgspec

TIME_IS_UP = signal.SIGXCPU
"""The signal by which the grader ends a cell, and nothing but the cell, in the submission's process."""
MEBIBYTE = 2**20
LONGEST_WAIT = 3
LEAST_WAIT = 60.0  # seconds that a submission may be kept waiting, however short its own limit is


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one submission, the same for every submission of a batch.

    Attributes:
        cell_seconds: for one cell, or one call that a check makes; nbgrader's own default (`Execute.timeout`, 0.9.6).
        submission_seconds: for all cells and calls of one submission together, and, summed over all of its processes, of
            processor time. Both are counted on a clock that stands still while others keep the submission waiting for a
            processor, until `LONGEST_WAIT` times as long has passed, or a minute where that is longer.
        memory_bytes: of all its processes together, above what the worker uses before it begins.
        processes: how many may exist at once, threads included.
        output_bytes: of text and pictures in one submission's outputs; the rest is cut off, without a penalty.
        file_bytes: of the largest file it may write.
        disk_bytes: of its private /tmp and home folder together; they are kept in memory.
        notebook_bytes: of the submitted notebook.
        attachment_bytes: of all other submitted files.
        attachment_count: of the files and folders beside the notebooks.
        reply_bytes: of one answer from the worker.
        picture_seconds: for recording the wrong answers of one submission, for the pictures in its feedback; 0 records none.
        reply_items: values in one answer: each number, text, key, list and map; an array of NumPy or PyTorch is one.
    """

    cell_seconds: float = 30.0
    submission_seconds: float = 120.0
    memory_bytes: int = 1024 * MEBIBYTE
    processes: int = 64
    output_bytes: int = 4 * MEBIBYTE
    file_bytes: int = 64 * MEBIBYTE
    disk_bytes: int = 128 * MEBIBYTE
    notebook_bytes: int = 20 * MEBIBYTE
    attachment_bytes: int = 50 * MEBIBYTE
    attachment_count: int = 2000
    reply_bytes: int = 64 * MEBIBYTE
    reply_items: int = 2_000_000
    picture_seconds: float = 6.0

"""The command `atlas`: the tensors that an operation of PyTorch saves for backward."""

from __future__ import annotations

import argparse
from typing import Any

from autograder.locale.translations import translated


def add_to(verbs: Any) -> None:
    """Add the command and its options to the parser."""
    atlas = verbs.add_parser("atlas", help=translated("show which tensors a PyTorch operation saves for backward"))
    which = atlas.add_mutually_exclusive_group()
    which.add_argument(
        "operation", nargs="?", metavar="OP", help="operation, such as exp, torch.exp, Tensor.exp_, F.relu, @"
    )
    which.add_argument("--json", action="store_true", help="print the whole table as one JSON object")
    which.add_argument("--diff", nargs=2, metavar=("A", "B"), help="show the changes between two releases of PyTorch")
    atlas.set_defaults(run=_atlas)


def _atlas(chosen: argparse.Namespace) -> int:
    from autograder.tape.atlas.answers import difference, of_operation, summary, whole_table

    if chosen.json:
        print(whole_table(), end="")
    elif chosen.diff:
        print(difference(*chosen.diff))
    else:
        print(summary() if chosen.operation is None else of_operation(chosen.operation))
    return 0

"""Creates the atlas: the tensors that each operation keeps for backward, for the running release of PyTorch or for others.

    python -m tests.atlas [VERSION …] [--only OPERATION …] [--environments DIR] [--workers N]

Without --only, the table is written to autograder/tape/atlas/tables/VERSION.json; with it, the table is printed.
Another release runs in its own environment, which is shared with `python -m tests.versions`. The exit code is 2 if an
environment cannot be created.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from autograder.tape.atlas.atlas_text import TABLES
from tests.atlas.generation import table
from tests.versions.environment import CACHE, EnvironmentFailure, python_with

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Make the table here, or has it made by the interpreter of each release that is named."""
    options = parsed()
    more = ["--workers", str(options.workers), *(["--only", *options.only] if options.only else [])]
    try:
        for version in options.versions:
            python = python_with(version, options.environments)
            subprocess.run([python, "-m", "tests.atlas", *more], cwd=ROOT, check=True)
    except EnvironmentFailure as failure:
        print(failure, file=sys.stderr)
        return 2
    if not options.versions:
        made = table(options.only, options.workers)
        print(as_text(made)) if options.only else write(made)
    return 0


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.atlas", description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="a release of PyTorch (default: the one here)")
    parser.add_argument("--only", nargs="+", default=[], metavar="OPERATION", help='such as exp or "max (binary)"')
    parser.add_argument(
        "--environments", type=Path, default=CACHE, metavar="DIR", help=f"where they are kept ({CACHE})"
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes at work at once (2)")
    return parser.parse_args()


def write(made: dict[str, Any]) -> None:
    """Write the table to its place in the package."""
    place = TABLES / f"{made['pytorch']}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(as_text(made) + "\n", encoding="utf-8")
    print(f"{place.relative_to(ROOT)}: {len(made['operations'])} operations, {len(made['not_covered'])} not covered")


def as_text(made: dict[str, Any]) -> str:
    """Return the table as JSON with one operation on each line, so that two versions of it can be compared."""
    head = {key: value for key, value in made.items() if not isinstance(value, list)}
    parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key in ("operations", "not_covered"):
        lines = ",\n".join(json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in made[key])
        parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
    return "{" + ",\n".join(parts) + "}"


if __name__ == "__main__":
    sys.exit(main())

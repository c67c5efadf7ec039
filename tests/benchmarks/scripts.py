"""Counts the right answers of `explain` for the training scripts in `tests/corpus/scripts`, alone or several at once.

    python -m tests.benchmarks.scripts [--at-once N] [NAME ...]

Each script is explained in a separate process. Every offered repair is applied by `patch`, and the script is then trained in
plain PyTorch together with its correct version. Times depend on other load.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

from tests.corpus.script_answers import ScriptJudgement, ask, judge
from tests.corpus.whole_scripts import Script, scripts


def main() -> None:
    """Print a line for each script, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these scripts")
    parser.add_argument("--at-once", type=int, default=1)
    chosen = parser.parse_args()
    wanted = [script for script in scripts() if not chosen.names or script.name in chosen.names]
    with ThreadPoolExecutor(chosen.at_once) as pool:
        judged = list(pool.map(measure, wanted))
    broken = [one for one in judged if one and one.line is not None]
    print(f"{sum(one is not None for one in judged)} of {len(judged)} answered")
    print(f"{sum(one is not None and one.outcome for one in judged)} outcomes right")
    print(f"{sum(bool(one.line) for one in broken)} harmful lines named, of {len(broken)}")
    print(f"{sum(bool(one.first) for one in broken)} first fixes right, of {len(broken)}")


def measure(script: Script) -> ScriptJudgement | None:
    """Return the judgement of a script's answer, and print it; None if there is no answer."""
    began = time.monotonic()
    try:
        judged = judge(script, ask(script).found)
    except EOFError:
        judged = None
    print(f"{script.name}, {time.monotonic() - began:.0f} s with training: {judged or 'no answer'}", flush=True)
    return judged


if __name__ == "__main__":
    main()

"""The form of a commit's subject: `area: imperative verb object`, at most 72 characters.

python -m tests.commit_subject FILE

`FILE` contains the message; git passes it to the hook `commit-msg`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONGEST = 72
FORM = re.compile(r"[\w%./-]+(, [\w%./-]+)*: (?P<verb>[a-z][a-z-]*) \S.*")
GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ")
"""How subjects begin that git writes by itself."""
NOT_IMPERATIVE = re.compile(r"\w+(?<!s)s$|\w+(?<![e])ed$|\w{3,}(?<!br)ing$")
"""Verbs in the forms "adds", "added" and "adding"; "pass", "need" and "bring" are imperatives."""


def fault(subject: str) -> str:
    """Return the reason to reject a subject, or "" for a good one."""
    if subject.startswith(GENERATED):
        return ""
    if len(subject) > LONGEST:
        return f"the subject has {len(subject)} characters; use at most {LONGEST} and put reasons into the body"
    form = FORM.fullmatch(subject)
    if form is None or NOT_IMPERATIVE.fullmatch(form["verb"]):
        return "write the subject as `area: imperative verb object`, such as `explain: compare second derivatives`"
    return ""


def main() -> int:
    """Check the message in the file that the command line names."""
    lines = Path(sys.argv[1]).read_text("utf-8").splitlines()
    reason = fault(next((line for line in lines if line.strip() and not line.startswith("#")), ""))
    if reason:
        print(f"commit message: {reason}", file=sys.stderr)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())

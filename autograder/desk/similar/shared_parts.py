"""What two answers share that was not handed out and that few others wrote, found by the fingerprints of copydetect (0.5).

Names, layout and comments do not count; the order of parts does not either.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from copydetect.utils import filter_code, get_document_fingerprints

LENGTH = 16  # characters of a fingerprint, after names have become single letters: a short statement
WINDOW = 1  # every fingerprint counts: copydetect chooses among several by Python's hash, which differs from run to run
COMMON, MANY = 0.2, 50  # share and number of the class; what more of it writes is no evidence
FEW = 2  # what two wrote is never common, however small the class
# Below these a pair is not shown. They were chosen on simulated classes; tests/desk/test_similar.py measures them on others.
LEAST_BITS = 8.0
LEAST_SHARE = 0.6
LEAST_LINES = 3


class Fingerprints(NamedTuple):
    """The fingerprints of one answer: where each stands in the code, as the number of a line."""

    lines: dict[int, int]


class SimilarPair(NamedTuple):
    """Two students whose answers share what few others wrote.

    Attributes:
        students: both, by id.
        bits: how unlikely the shared parts are: for each statement's length of them the logarithm of the class by who has it.
        share: of what is rare in the smaller of both, from 0 to 1.
        lines: for each of the two the numbers of the lines that they share, from 0.
        holders: how many students have the most common of the shared parts.
    """

    students: tuple[str, str]
    bits: float
    share: float
    lines: tuple[frozenset[int], frozenset[int]]
    holders: int


def similar_pairs(answers: Mapping[str, Sequence[str]], handed_out: Sequence[str] = ()) -> list[SimilarPair]:
    """Returns the pairs of students whose answers share much that is rare, the least likely first.

    Args:
        answers: each student's code for each exercise, without comments; lines are counted in `whole` of it.
        handed_out: code that everybody was given, or may well arrive at: the stub, the model answers.
    """
    known = {mark for code in handed_out for mark in fingerprints([code]).lines}
    found = {student: fingerprints(parts) for student, parts in answers.items()}
    counted = Counter(mark for one in found.values() for mark in one.lines)
    most = max(FEW, min(COMMON * len(found), MANY))
    bits = {
        mark: math.log2(len(found) / count) for mark, count in counted.items() if count <= most and mark not in known
    }
    holders: dict[int, list[str]] = defaultdict(list)
    for student, one in found.items():
        for mark in one.lines.keys() & bits.keys():
            holders[mark].append(student)
    shared: dict[tuple[str, str], list[int]] = defaultdict(list)
    for mark, students in holders.items():
        for pair in itertools.combinations(sorted(students), 2):
            shared[pair].append(mark)
    own = {student: sum(bits[mark] for mark in one.lines.keys() & bits.keys()) for student, one in found.items()}
    pairs = [_pair(pair, marks, bits, own, found, counted) for pair, marks in shared.items()]
    kept = [
        pair for pair in pairs if pair.bits >= LEAST_BITS and pair.share >= LEAST_SHARE and _lines(pair) >= LEAST_LINES
    ]
    return sorted(kept, key=lambda pair: (-pair.bits, pair.students))


def _lines(pair: SimilarPair) -> int:
    return min(map(len, pair.lines))


def whole(parts: Sequence[str]) -> str:
    """Returns a student's answers below each other."""
    return "\n\n".join(parts)


def fingerprints(parts: Sequence[str]) -> Fingerprints:
    """Returns the fingerprints of some answers in Python, none of which reaches from one into the next."""
    lines: dict[int, int] = {}
    begin = 0
    for code in parts:
        tokens, offsets = filter_code(code, "answer.py")
        if len(tokens) >= LENGTH:
            _, places = get_document_fingerprints(tokens, LENGTH, WINDOW)
            lines |= {mark: begin + _line(code, offsets, int(at[0])) for mark, at in places.items()}
        begin += code.count("\n") + 2
    return Fingerprints(lines)


def _line(code: str, offsets: Sequence[Sequence[int]], at: int) -> int:
    """Returns the line of the code in which a place of the filtered code stands."""
    removed = 0
    for place, count in offsets:
        if place >= at:
            break
        removed = count
    return code.count("\n", 0, min(at + int(removed), len(code)))


def _pair(
    students: tuple[str, str],
    marks: list[int],
    bits: Mapping[int, float],
    own: Mapping[str, float],
    found: Mapping[str, Fingerprints],
    counted: Mapping[int, int],
) -> SimilarPair:
    together = sum(bits[mark] for mark in marks)  # neighbours overlap, so that LENGTH of them are one statement
    first, second = (frozenset(found[one].lines[mark] for mark in marks) for one in students)
    smaller = min(own[one] for one in students)
    return SimilarPair(
        students,
        together,
        together / smaller if smaller else 0.0,
        (first, second),
        max(counted[mark] for mark in marks),
    )

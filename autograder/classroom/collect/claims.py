"""The assignment of submissions to students, and questions to the teacher about the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from autograder.classroom.collect.hand_in_files import ReadableHandIn
from autograder.classroom.collect.person_match import match_people
from autograder.classroom.collect.questions import NONE, Answers, MatchQuestion
from autograder.classroom.roster import Person, Roster


class Claim(NamedTuple):
    """A submission of a known student, with the way in which the student was identified."""

    person: Person
    how: str
    work: ReadableHandIn


def claims_of(
    works: list[ReadableHandIn], roster: Roster, answers: Answers
) -> tuple[dict[str, list[Claim]], list[MatchQuestion]]:
    """Return the submissions of each student, and a question for each submission whose student is unknown."""
    claims: dict[str, list[Claim]] = defaultdict(list)
    questions = []
    for work in works:
        if answers.students.get(work.hand_in.key) == NONE:
            continue
        for person, how in match_people(work.hand_in, roster, answers.students):
            if person is None:
                questions.append(MatchQuestion(work.hand_in.key, "", work.hand_in.name, how))
            else:
                claims[person.student].append(Claim(person, how, work))
    for student, claim, person in list(_shared(claims, roster)):
        claims[student].append(Claim(person, f"submitted by {claim.person.student} for the group", claim.work))
    return _without_doubts(claims, questions)


def _shared(claims: dict[str, list[Claim]], roster: Roster) -> Iterator[tuple[str, Claim, Person]]:
    """Yield the group members who did not submit anything, each with the submissions of another member."""
    for listed in list(claims.values()):
        for person in roster.members(listed[0].person):
            if person.student not in claims:
                yield from ((person.student, claim, person) for claim in listed)


def _without_doubts(
    claims: dict[str, list[Claim]], questions: list[MatchQuestion]
) -> tuple[dict[str, list[Claim]], list[MatchQuestion]]:
    """Remove students to whom submissions of two people on the platform were matched by name alone."""
    for student, listed in list(claims.items()):
        keys = {claim.work.hand_in.key for claim in listed}
        if len(keys) > 1 and any(claim.how == "by name" for claim in listed):
            del claims[student]
            why = f"{len(keys)} people of the platform match {student}"
            questions += [question_of(claim, why) for claim in listed]
    return claims, questions


def question_of(claim: Claim, why: str, file: str = "") -> MatchQuestion:
    """Return a question about a submission, or about one of its files."""
    return MatchQuestion(claim.work.hand_in.key, file, claim.person.name or claim.work.hand_in.name, why)

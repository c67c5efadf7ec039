"""A course as plain data: all that another process, or another machine, needs to grade its submissions."""

from __future__ import annotations

import hashlib

import msgspec

from autograder.grade.sandbox.isolation.levels import known_level
from autograder.grade.submission.teacher.source import AssignmentSource, SourceBundle
from autograder.grade.where.grading_job import GradingTerms
from autograder.grade.wire.limits import Limits


class CourseBundle(msgspec.Struct, frozen=True):
    """A course.

    Attributes:
        sources: the teacher's notebooks.
        level: the name of the isolation level.
        limits: the resources that one submission may use.
        seed: from which inputs are drawn.
    """

    sources: tuple[SourceBundle, ...]
    level: str
    limits: Limits
    seed: int

    @classmethod
    def of(cls, terms: GradingTerms) -> CourseBundle:
        """Return the bundle of these terms."""
        sources = tuple(source.bundle() for source in terms.sources.values())
        return cls(sources, terms.level.name, terms.limits, terms.seed)

    def terms(self) -> GradingTerms:
        """Return the terms again; each source has the digest that it had."""
        sources = {bundled.name: AssignmentSource.from_bundle(bundled) for bundled in self.sources}
        return GradingTerms(sources, known_level(self.level), self.limits, self.seed)

    @property
    def name(self) -> str:
        """A hash of the whole bundle."""
        return hashlib.sha256(msgspec.msgpack.encode(self, order="deterministic")).hexdigest()[:16]

"""All that a worker needs to grade a course, sent to it once: sources, data files, limits, and the versions that it must have."""

from __future__ import annotations

import hashlib
import json

import msgspec
import nbformat

from autograder.course.variants.declared_changes import DeclaredChanges
from autograder.grade.sandbox.isolation.levels import known_level
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import GradingTerms
from autograder.grade.where.machine_facts import handshake_versions
from autograder.grade.wire.limits import Limits


class BundledSource(msgspec.Struct, frozen=True):
    """A source notebook as its JSON, the files beside it, and what may differ between two students' notebooks."""

    name: str
    notebook: str
    files: dict[str, bytes]
    changes: DeclaredChanges


class CourseBundle(msgspec.Struct, frozen=True):
    """A course as plain data.

    Attributes:
        sources: the teacher's notebooks.
        level: the name of the isolation level.
        limits: what one submission may use.
        seed: from which inputs are drawn.
        versions: what a worker's `handshake_versions` have to be.
    """

    sources: tuple[BundledSource, ...]
    level: str
    limits: Limits
    seed: int
    versions: dict[str, str]

    @classmethod
    def of(cls, terms: GradingTerms) -> CourseBundle:
        """Returns the bundle of these terms, for workers that have what this machine has."""
        sources = tuple(
            BundledSource(source.name, json.dumps(source.notebook), source.files, source.changes)
            for source in terms.sources.values()
        )
        return cls(sources, terms.level.name, terms.limits, terms.seed, handshake_versions())

    def terms(self) -> GradingTerms:
        """Returns the terms again; each source has the digest that it had."""
        sources = {
            one.name: AssignmentSource(one.name, nbformat.from_dict(json.loads(one.notebook)), one.files, one.changes)
            for one in self.sources
        }
        return GradingTerms(sources, known_level(self.level), self.limits, self.seed)

    @property
    def name(self) -> str:
        """A hash of everything in the bundle."""
        return hashlib.sha256(msgspec.msgpack.encode(self, order="deterministic")).hexdigest()[:16]

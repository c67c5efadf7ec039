"""The namespace in which tests run a lesson's cells: the package's own."""

from autograder.course.variants.variant_proof import CellNamespace as Namespace

__all__ = ["Namespace"]

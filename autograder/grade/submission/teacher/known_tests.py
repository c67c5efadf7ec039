"""What nbgrader's gradebook knows of AUTOTEST lines that have been turned into tests before. Imports no PyTorch."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import InstantiateTests, NbGraderPreprocessor
from traitlets import Dict
from traitlets.config import Config


class KnownTests(NbGraderPreprocessor):
    """Takes the place of nbgrader's InstantiateTests where a source's AUTOTEST lines have been turned into tests before."""

    cells = Dict(help="The text of each grade cell, by the notebook's name and the cell's grade_id.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """Returns the notebook with the tests."""
        known = self.cells.get(resources["nbgrader"]["notebook"], {})
        for cell in nb.cells:
            if utils.is_grade(cell) and cell.cell_type == "code":
                cell.source = known.get(cell.metadata.nbgrader["grade_id"], cell.source)
        return nb, resources


def use_known_tests(config: Config, cells: dict[str, dict[str, str]]) -> None:
    """Makes `generate_assignment` take these texts of grade cells, by notebook and grade_id, instead of starting a kernel."""
    stages = config.GenerateAssignment.preprocessors
    config.GenerateAssignment.preprocessors = [KnownTests if one is InstantiateTests else one for one in stages]
    config.KnownTests.cells = cells

"""A notebook's stored outputs are dropped before its size is judged, in a time and memory that no file can exceed."""

import json
import re
import time
from types import SimpleNamespace

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.submission.submitted_files import (
    LARGEST_NOTEBOOK,
    UnreadableSubmission,
    notebook_bytes,
    parse,
    without_outputs,
)
from autograder.grade.wire.limits import MEBIBYTE, Limits

SOURCE = 'x = {"outputs": [1, "]"]}\nprint("\\"outputs\\": [")'


def notebook(outputs, **more):
    """Return a notebook's bytes, with outputs in its one code cell."""
    cell = {"cell_type": "code", "source": SOURCE, "metadata": {}, "execution_count": 1, "outputs": outputs}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | more).encode()


OUTPUTS = {
    "one picture": [{"data": {"image/png": "A" * 30 * MEBIBYTE}}],
    "many lines": [{"text": [f"row {n}: 3.14, 2.71\n" for n in range(10**6)]}],
    "numbers that JSON does not know": [{"data": {"application/vnd.plotly.v1+json": [float("nan"), 1.5] * 2 * 10**6}}],
    "escapes": [{"text": '"\\\n' * 5 * 10**6}],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_large_outputs_are_dropped(tmp_path, name):
    """Outputs are dropped whatever they contain; the cells are those of the notebook without outputs."""
    data = notebook(
        OUTPUTS[name], metadata={"widgets": {"state": {"a": "]" * 10**6}}, "language_info": {"name": "python"}}
    )
    assert len(data) > Limits().notebook_bytes
    (tmp_path / "n.ipynb").write_bytes(data)
    start = time.process_time()
    kept = notebook_bytes(tmp_path / "n.ipynb", Limits())
    assert time.process_time() - start < 10
    assert len(kept) < 1000
    assert parse(notebook([])) == parse(kept)


def test_an_older_format_loses_its_outputs_too():
    """nbformat 3 has its cells in worksheets, and calls a source `input`."""
    output = nbformat.v3.new_output("stream", "a" * 5000)
    cells = [nbformat.v3.new_code_cell(SOURCE, outputs=[output])]
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet(cells=cells)])
    kept = without_outputs(json.dumps(old).encode())
    assert len(kept) < 1500
    assert [SOURCE] == [cell.source for cell in parse(kept)]


JSON = st.recursive(
    st.none() | st.floats(allow_nan=True) | st.text() | st.sampled_from(["outputs", "widgets", '"outputs": [']),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["outputs", "widgets", "a"]) | st.text(), inner),
)


@given(JSON, st.sampled_from([None, 0, 1]))
def test_all_but_the_outputs_stays(value, indent):
    """For any JSON with any texts, an "outputs" that is a list is emptied, and so is "widgets" that is an object."""

    def emptied(part):
        if isinstance(part, dict):
            rest = {key: emptied(item) for key, item in part.items()}
            for key, kind in (("outputs", list), ("widgets", dict)):
                if isinstance(rest.get(key), kind):
                    rest[key] = kind()
            return rest
        return [emptied(item) for item in part] if isinstance(part, list) else part

    kept = without_outputs(json.dumps(value, indent=indent).encode())
    assert json.dumps(emptied(value)) == json.dumps(json.loads(kept))


@pytest.mark.parametrize(
    "data",
    [
        b'{"cells": [{"outputs": ["' + b'\\"' * 10**6,
        b'{"outputs":[' + b"[]" * 2 * 10**6,
        b'{"outputs":[' + b"[" * 10**6,
        b'{"cells":[' + b'{"outputs":[]},' * 10**6,
        b'"outputs":[]' * 10**6 + b'"',
        b'"outputs"' + b" " * 10**6,
        b"\\" * 10**6,
    ],
    ids=["open text", "brackets", "depth", "cells", "keys", "blanks", "backslashes"],
)  # fmt: skip
def test_no_text_takes_long(data):
    """Each byte is read once; a text that cannot be read in time is unchanged, and is judged by its size."""
    start = time.process_time()
    assert data == without_outputs(data)
    assert time.process_time() - start < 10


def test_a_file_of_any_size_is_refused_at_once(tmp_path):
    """Without being read, and with a reason."""
    with (tmp_path / "n.ipynb").open("wb") as file:
        file.truncate(500 * MEBIBYTE)
    start = time.process_time()
    with pytest.raises(UnreadableSubmission, match=f"n.ipynb is larger than the {LARGEST_NOTEBOOK // MEBIBYTE} MiB"):
        notebook_bytes(tmp_path / "n.ipynb", Limits())
    assert time.process_time() - start < 1


def test_a_large_notebook_without_outputs_is_refused(tmp_path):
    """Its own text is judged by the limit of a notebook."""
    (tmp_path / "n.ipynb").write_bytes(notebook([], metadata={"a": "x" * 21 * MEBIBYTE}))
    with pytest.raises(UnreadableSubmission, match=re.escape("n.ipynb is larger than the 20 MiB that are allowed")):
        notebook_bytes(tmp_path / "n.ipynb", Limits())


def test_another_data_file_makes_another_submission(tmp_path):
    """A submission of which only a data file changed is graded again."""
    digests = []
    for text in ("1", "2", "2"):
        (tmp_path / "data.csv").write_text(text)
        classroom = SimpleNamespace(submitted=lambda _: tmp_path, submission_time=lambda *_: SimpleNamespace(time=None))
        digests.append(StudentSubmission(classroom, "ann", {}, Limits()).digest)
    assert digests[0] != digests[1] == digests[2]

"""A platform's CSV is read as Python's csv module reads it, and what is not changed stays to the byte."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.classroom.table_file import TableError, TableFile, read_table
from tests.classroom import downloads

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


def table_of(path, data: bytes) -> TableFile:
    """Return the table in some bytes."""
    return TableFile(path / "grades.csv", data)


def written(rows, **options) -> str:
    """Return the output of Python's csv module."""
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue()


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    change=CELLS,
)
def test_every_cell_is_read_and_written_back(tmp_path_factory, rows, delimiter, end, quoting, encoding, change):
    """For any contents, one cell is changed, and all others are unchanged, according to Python's own reader."""
    rows = [("a", "b", "c"), *(row for row in rows if any(cell.strip() for cell in row))]
    data = written(rows, delimiter=delimiter, lineterminator=end, quoting=quoting).encode(encoding)
    table = table_of(tmp_path_factory.getbasetemp(), data)
    assert [list(row) for row in rows[1:]] == table.rows
    assert data == table.with_cells({})
    if table.rows:
        after = list(
            csv.reader(
                io.StringIO(table.with_cells({(0, 1): change}).decode(encoding), newline=""), delimiter=delimiter
            )
        )
        expected = [list(row) for row in rows]
        expected[1][1] = change
        assert expected == after


def test_bytes_around_a_change_stay(tmp_path):
    """Quotes that were not needed, blanks, a lone carriage return, an empty line, no line at the end: all as it was."""
    data = b'\xef\xbb\xbf"Student",ID ,"x"\r\n\r\n "a" ,1,"- "\r"b", 2,"=1"'
    table = table_of(tmp_path, data)
    assert data.replace(b",1,", b',"1,5",') == table.with_cells({(0, 1): "1,5"})


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param("Name;Größe\nJörg;1\n".encode("cp1252"), "is not UTF-8", id="another encoding"),
        pytest.param(b"a,b\n1,2,3\n", "row 2 has 3 cells, the first has 2", id="rows of several lengths"),
        pytest.param(b"", "contains no table", id="empty"),
        pytest.param(b"\x89PNG\r\n\x1a\n\xff", "is not UTF-8", id="no text"),
        pytest.param(b"just words\n", "contains no table", id="no columns"),
        pytest.param(b'a,b\n"open,2\n', "is not closed", id="a quote that never ends"),
    ],
)
def test_what_is_no_table_is_said_in_one_sentence(tmp_path, data, sentence):
    """The file is named, and what is wrong with it."""
    with pytest.raises(TableError, match=sentence) as caught:
        table_of(tmp_path, data)
    assert "\n" not in str(caught.value)


def test_a_missing_or_huge_file_is_said(tmp_path, monkeypatch):
    """One sentence each."""
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / "nothing.csv")
    monkeypatch.setattr("autograder.classroom.table_file.LARGEST", 10)
    with pytest.raises(TableError, match="too many for a class list"):
        read_table(downloads.write_csv(tmp_path / "a.csv", [["abcdef", "abcdef"]]))

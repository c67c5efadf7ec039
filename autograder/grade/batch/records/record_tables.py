"""Our own tables in nbgrader's gradebook, in SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, and_, bindparam

RECORDS = MetaData()
RUNS = Table(
    "autograder_run",
    RECORDS,
    Column("id", Integer, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("assignment", "seed")),
    Column("forced", Integer, nullable=False),
    Column("begun", Text, nullable=False),
    Column("finished", Text),
)
GRADES = Table(
    "autograder_grade",
    RECORDS,
    *(Column(name, Text, primary_key=True) for name in ("assignment", "student")),
    Column("run", Integer, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("submission", "source", "made_with", "cells", "graded")),
)
REHEARSALS = Table(
    "autograder_rehearsal",
    RECORDS,
    *(Column(name, Text, primary_key=True) for name in ("assignment", "notebook")),
    *(Column(name, Text, nullable=False) for name in ("source", "found", "rehearsed")),
)
POLICIES = Table(
    "autograder_policy",
    RECORDS,
    *(Column(name, Text, primary_key=True) for name in ("assignment", "student")),
    *(Column(name, Text, nullable=False) for name in ("policy", "applied")),
)


def replace_rows(session: Any, table: Table, rows: list[dict[str, Any]]) -> None:
    """Writes rows instead of those with the same primary key; inside a transaction."""
    keys = [column.name for column in table.primary_key]
    old = table.delete().where(and_(*(table.c[key] == bindparam(f"old_{key}") for key in keys)))
    # A statement on the connection itself: a session takes several sets of parameters for a delete in another way.
    connection = session.connection()
    connection.execute(old, [{f"old_{key}": row[key] for key in keys} for row in rows])
    connection.execute(table.insert(), rows)

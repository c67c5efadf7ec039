"""A copy of a gradebook in a SQLite file, to try something in."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nbgrader.api import Base
from sqlalchemy import Connection, MetaData, Table, create_engine, inspect
from sqlalchemy.engine import make_url

from autograder.grade.batch.records.record_tables import RECORDS


def copy_gradebook(address: str, file: Path) -> None:
    """Writes nbgrader's tables and ours to a new SQLite file, from a gradebook in SQLite or PostgreSQL."""
    url = make_url(address)
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(url.database or "")) as source, closing(sqlite3.connect(file)) as target:
            source.backup(target)
        return
    there, here = create_engine(url), create_engine(f"sqlite:///{file}")
    try:
        with there.connect() as source, here.begin() as target:
            _copy_tables(source, target)
    finally:
        there.dispose()
        here.dispose()


def _copy_tables(source: Connection, target: Connection) -> None:
    known = set(inspect(source).get_table_names())
    # By this table nbgrader knows that it need not make the others.
    version = [Table("alembic_version", MetaData(), autoload_with=source)] if "alembic_version" in known else []
    for table in (*Base.metadata.sorted_tables, *RECORDS.sorted_tables, *version):
        table.create(target)
        if table.name in known and (rows := [dict(row) for row in source.execute(table.select()).mappings()]):
            target.execute(table.insert(), rows)

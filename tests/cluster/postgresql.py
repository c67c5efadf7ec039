"""A separate PostgreSQL server for a test: Debian's package, reached through a socket in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def programs() -> Path | None:
    """Return the folder with initdb and postgres, None where they are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parts[-3]))
    return found[-1].parent if found else None


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Yield the address of an empty database, as SQLAlchemy writes it."""
    where = programs()
    assert where is not None
    folder = Path(tempfile.mkdtemp(prefix="autograder-postgresql-"))
    # PostgreSQL refuses to run as root; its package has made a user.
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
    try:
        data = ["-D", str(folder / "data")]
        _run(*user, str(where / "initdb"), *data, "--auth=trust", "--username=teacher", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        control = [*user, str(where / "pg_ctl"), *data, "--wait"]
        _run(*control, "start", "-t", "120", "-o", settings, "-l", str(folder / "log"))
        try:
            _run(str(where / "createdb"), "-h", str(folder), "-U", "teacher", "book")
            yield f"postgresql+psycopg://teacher@/book?host={folder}"
        finally:
            _run(*control, "stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=300)
    assert done.returncode == 0, done.stderr

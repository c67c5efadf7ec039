"""`lab`: start JupyterLab with the course, and keep all files that it writes inside the clone."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import nbformat

from autograder.course.canonical import read, write
from autograder.course.glossary_links import lesson_in_language
from autograder.course.paths import HOME, NOTEBOOKS, ROOT, WORK, lessons, replace_file, write_files
from autograder.errors import SetupError
from autograder.locale.languages import SOURCE as SOURCE_LANGUAGE
from autograder.locale.languages import VARIABLE
from autograder.locale.translations import translatable, translated
from autograder.requirements import require_clone

FIRST_PORT = 8888
KEPT = translatable(
    "work/{name} contains your answers to an older release and is kept. Move it away to get the new one."
)
# Plug-ins of nbgrader's labextension (0.9.6) for teachers; "validate-assignment" is enabled for everyone.
TEACHERS_PLUGINS = ("assignment-list", "course-list", "create-assignment", "formgrader", "menu")
TEACHERS_SERVERS = ("formgrader", "assignment_list", "course_list")


def open_lab(
    lesson: str | None, *, port: int | None, browser: bool, teacher: bool, language_code: str = SOURCE_LANGUAGE
) -> int:
    """Return JupyterLab's exit code when it stops; Ctrl-C stops it.

    A student works on copies in `work/`, so that notebooks/ remains as released and an update does not change answers.
    `work/` is in the clone, or in the current folder if the package was installed; each language except English has its
    own folder in it. A teacher gets the whole clone, with nbgrader's tools, instead of the copies.

    `lesson` is a lesson's name or the beginning of it, such as "02"; None opens the first page. `port` is the port of
    the server; None means the first free one from 8888.

    Raises:
        SetupError: the lesson does not exist, the port is taken, the folder cannot be written, or there is no clone for a
            teacher.
    """
    page = _page(lesson)
    try:
        if teacher:
            require_clone("lab --teacher")
        _write_settings(teacher)
        for line in [] if teacher else hand_out(language_code):
            print(line)
    except OSError as error:
        raise SetupError.of(
            "lab.not_writable|{folder} cannot be written ({reason}). Run the command in a folder of your own.",
            folder=error.filename or ROOT,
            reason=error.strerror,
        ) from None
    chosen = _port(port)
    token = secrets.token_hex(16)
    # The server must stop when this process is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = ROOT if teacher else work_folder(language_code)
    path = f"solutions/{page}" if teacher else page
    # JupyterLab 4.6 lists the page's own folder unless the address names another one; the student should see all lessons.
    address = (
        f"http://127.0.0.1:{chosen}/lab/tree/{path}?token={token}&file-browser-path=/{'solutions' if teacher else ''}"
    )
    with _server(folder, chosen, token, language_code) as server:
        _wait_until_up(server, f"http://127.0.0.1:{chosen}/api?token={token}")
        stop = translated("(Ctrl-C stops it)")
        print(f"autograder: {address}\n{stop}", flush=True)
        if browser:
            webbrowser.open(address)
        return server.wait()
    return 0  # stopped by Ctrl-C


def work_folder(language_code: str) -> Path:
    """Return the folder of a student's copies in one language."""
    return WORK if language_code == SOURCE_LANGUAGE else WORK / language_code


def hand_out(language_code: str = SOURCE_LANGUAGE) -> list[str]:
    """Copy new lessons to `work/`, replace unchanged copies, and return a line for each copy with answers."""
    if language_code == SOURCE_LANGUAGE:
        return _copy_to_work(NOTEBOOKS, WORK)
    with tempfile.TemporaryDirectory(prefix="autograder-") as folder:
        for path in lessons(NOTEBOOKS):
            write(lesson_in_language(read(path), language_code), Path(folder) / path.relative_to(NOTEBOOKS))
        return _copy_to_work(Path(folder), work_folder(language_code))


def _copy_to_work(released: Path, work: Path) -> list[str]:
    record_file = HOME / "handed_out.json"
    handed = json.loads(record_file.read_text("utf-8")) if record_file.exists() else {}
    kept = []
    for source in lessons(released):
        target, fresh = work / source.relative_to(released), _digest(source)
        name = target.relative_to(WORK).as_posix()
        # earlier versions recorded the hash of all bytes
        if not target.exists() or handed.get(name) in (_digest(target), sha256(target.read_bytes()).hexdigest()):
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_for_this_kernel(source, target)
            handed[name] = fresh
        elif handed.get(name) != fresh:
            kept.append(f"autograder: {translated(KEPT, name=name)}")
    replace_file(record_file, msgspec.json.encode(handed))
    return kept


def _copy_for_this_kernel(source: Path, target: Path) -> None:
    """Copy a notebook with the complete metadata of its kernel's language; otherwise JupyterLab 4.6 marks it as modified."""
    from ipykernel.ipkernel import IPythonKernel

    notebook = read(source)
    notebook.metadata["language_info"] = dict(IPythonKernel.language_info)
    nbformat.write(notebook, target)


def _page(lesson: str | None) -> str:
    # The page of a folder has the folder's name; it links to the other files, such as a glossary.
    pages = [path.relative_to(NOTEBOOKS) for path in lessons(NOTEBOOKS) if path.stem == path.parent.name]
    wanted = lesson or "start"
    matches = [page for page in pages if page.stem == wanted] or [
        page for page in pages if page.stem.startswith(wanted)
    ]
    if len(matches) != 1:
        known = {"lesson": repr(wanted), "names": ", ".join(page.stem for page in pages)}
        if matches:
            raise SetupError.of("lab.ambiguous|{lesson} matches more than one lesson. Choose one of: {names}.", **known)
        raise SetupError.of("lab.no_lesson|{lesson} matches no lesson. Choose one of: {names}.", **known)
    return str(matches[0])


def _digest(path: Path) -> str:
    """Return a hash of a notebook, without the metadata that JupyterLab writes if it is only opened and saved."""
    content = path.read_bytes()
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):  # a student's file may be invalid
        notebook = json.loads(content)
        notebook["metadata"].pop("language_info", None)
        content = json.dumps(notebook, sort_keys=True).encode()
    return sha256(content).hexdigest()


def _port(wanted: int | None) -> int:
    for port in [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + 100):
        with socket.socket() as probe, contextlib.suppress(OSError, OverflowError):
            probe.bind(("127.0.0.1", port))
            return port
    if wanted:
        raise SetupError.of(
            "lab.port_taken|port {wanted} is taken or not allowed. Leave --port out, or name another.", wanted=wanted
        )
    raise SetupError.of("lab.no_port|no port from 8888 to 8987 is free. Name one with --port.")


@contextlib.contextmanager
def _server(folder: Path, port: int, token: str, language_code: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "jupyterlab", "--no-browser"]
    command += [f"--ServerApp.root_dir={folder}", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    command += ["--ServerApp.answer_yes=True", "--log-level=ERROR", "--LabApp.log_level=ERROR"]
    if os.name == "posix" and os.geteuid() == 0:
        command.append("--allow-root")
    server = subprocess.Popen(command, cwd=ROOT, env=_environment() | {VARIABLE: language_code}, start_new_session=True)
    try:
        yield server
    except KeyboardInterrupt:
        message = translated("stopping JupyterLab")
        print(f"\nautograder: {message}", flush=True)
    finally:
        server.terminate()  # has no effect if it has ended
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()


def _environment() -> dict[str, str]:
    """Return the environment with all folders of Jupyter, IPython, matplotlib and npm inside the clone."""
    places = {
        "JUPYTER_CONFIG_DIR": "jupyter/config",
        "JUPYTER_DATA_DIR": "jupyter/data",
        "JUPYTER_RUNTIME_DIR": "jupyter/runtime",
        "JUPYTERLAB_SETTINGS_DIR": "jupyter/settings",
        "JUPYTERLAB_WORKSPACES_DIR": "jupyter/workspaces",
        "IPYTHONDIR": "ipython",
        "MPLCONFIGDIR": "matplotlib",
        "npm_config_cache": "npm",  # jupyter-lsp 2.3 asks npm, if it is installed, for its folder; npm logs each call
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    inside = {name: str(HOME / folder) for name, folder in places.items()}
    return os.environ | inside | {"PATH": path, "PYTHONNOUSERSITE": "1", "JUPYTER_PREFER_ENV_PATH": "1"}


def _write_settings(teacher: bool) -> None:
    hidden = {f"@jupyter/nbgrader:{name}": not teacher for name in TEACHERS_PLUGINS}
    hidden["@jupyterlab/apputils-extension:announcements"] = True  # checks for news on the network at every start
    servers = {f"nbgrader.server_extensions.{name}": teacher for name in TEACHERS_SERVERS}
    servers |= {"nbgrader.server_extensions.validate_assignment": False, "autograder.course.short_validation": True}
    settings = {
        "labconfig/page_config.json": {"disabledExtensions": hidden},
        "jupyter_server_config.json": {"ServerApp": {"jpserver_extensions": servers}},
    }
    files = {name: msgspec.json.format(msgspec.json.encode(content)) for name, content in settings.items()}
    write_files(HOME / "jupyter" / "config", files)


def _wait_until_up(server: subprocess.Popen[bytes], address: str) -> None:
    for _ in range(600):
        if server.poll() is not None:
            raise SetupError.of(
                "lab.exited|JupyterLab exited immediately with code {code}; see its messages above.",
                code=server.returncode,
            )
        with contextlib.suppress(urllib.error.URLError, ConnectionError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.1)
    raise SetupError.of(
        "lab.no_answer|JupyterLab did not answer within a minute. Run the command again, or name another --port."
    )

"""A copy of the project for a program that writes files: the user's files stay, and each run finds the same ones."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import shutil
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import ModuleType
from typing import Any

from torch import serialization

from autograder.locale.messages import Message
from autograder.tape.internals.entry_points import wrapping
from autograder.tape.run.programs.source_text import ProgramError, is_own_file

with contextlib.suppress(ImportError):  # Windows, where no folder is copied
    import fcntl

MOST_FILES = 10_000  # number of files and folders to copy; further folders are linked
# Limits in bytes for a copied file and for all copied files; the others are linked.
LARGE, MOST_BYTES = 32 << 20, 256 << 20
TOO_MANY = Message(
    "scratch.too_many_files|The project contains more than {count} files, so it was not copied completely: if the "
    "program writes into a folder without a copy, each run wrote there. Start in a smaller folder.", count=f"{MOST_FILES:,}",
)  # fmt: skip
SHOWN = 4  # number of paths in a note

FileState = tuple[int, int, int]
"""Type, size and modification time of a file, or only the type of a directory or link."""


@dataclass
class ScratchFolder:
    """A copy of the project (the working folder and the script's), with links to the siblings of it and of its parents.

    Hidden directories, virtual environments and large files are linked instead of copied. In a process that ends with
    the runs, an audit hook replaces these links before the program writes to them.
    """

    root: str  # an empty directory; the copy has the same path in it as the original has in `/`
    script: str | None = None  # path of the script, if the program is a file
    is_guarded: bool = False  # whether to set the audit hook, which cannot be removed
    original: str = field(default_factory=os.getcwd)  # the working folder
    # whether there is a copy; False for a folder that directly contains too many files, and on Windows
    is_copied: bool = os.name == "posix"
    _is_whole: bool = True
    _is_running: bool = False
    _listed: dict[str, bool] = field(default_factory=dict)
    _states: dict[str, FileState] = field(default_factory=dict)
    _linked: dict[str, FileState] = field(default_factory=dict)
    _bytes: int = 0
    _created: set[str] = field(default_factory=set)
    _written: dict[str, None] = field(default_factory=dict)
    _refused: ProgramError | None = None
    _thread: int = 0
    _downloads: bool = False

    def __post_init__(self) -> None:
        self.root = os.path.realpath(self.root)
        script_folder = os.path.dirname(os.path.abspath(self.script)) if self.script else self.original
        outer = os.path.commonpath([script_folder, self.original])
        self._folders = [outer] if outer in (script_folder, self.original) else [self.original, script_folder]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Use the copy, in its original state, as the working directory in the block.

        Raises:
            ProgramError: the program tried to remove a file outside of the project.
        """
        self._refused = None
        if not self._listed and os.name == "posix":
            self._list()
            if self.is_guarded:
                sys.addaudithook(self._guard())
        with self._hidden():
            if self.is_copied:
                self._restore()
                os.chdir(self.root + self.original)
            try:
                with self._replaced_writers():
                    self._is_running = True
                    yield
            finally:
                self._is_running = False
                os.chdir(self.original)
                self._deliver()
        if self._refused:
            raise self._refused from None

    @contextlib.contextmanager
    def importable(self, folders: list[str]) -> Iterator[None]:
        """Let these entries of `sys.path` name the copies in the block. Modules are still imported from the originals."""
        copies = {folder: self.path_of(folder) for folder in folders if self.path_of(folder) != folder}
        for folder, copy in copies.items():
            sys.path_importer_cache[copy] = _ProjectFinder(self, folder, copy)  # type: ignore[assignment]
        sys.path[:] = [copies.get(entry, entry) for entry in sys.path]
        try:
            yield
        finally:
            originals = {copy: folder for folder, copy in copies.items()}
            sys.path[:] = [originals.get(entry, entry) for entry in sys.path]
            for copy in copies.values():
                sys.path_importer_cache.pop(copy, None)

    def path_of(self, file: str) -> str:
        """Return the path of the copy of a file, or `file` if it is not in the project."""
        return self.root + file if self.is_copied and self._is_in_project(file) else file

    def is_changed(self, file: str) -> bool:
        """Return whether the program has changed its copy of a file in this run."""
        made = self.root + os.path.abspath(file)
        return made in self._states and self._states[made] != file_state(made)

    def notes(self) -> Iterator[str]:
        """Yield sentences on changes of the user's files by the program."""
        if os.name == "posix" and not (self.is_copied and (self._is_whole or self.is_guarded)):
            yield TOO_MANY
        for path, before in self._linked.items():
            if file_state(path) != before and path not in self._written:
                text = "scratch.too_large|{file} is too large to be copied, so each run wrote into the file itself."
                yield Message(text, file=os.path.relpath(path, self.original))
        written = [path for path in self._written if os.path.isfile(path) and not _is_of_library(path)]
        if written:
            files = ", ".join(written[:SHOWN]) + (", …" if len(written) > SHOWN else "")
            text = "scratch.outside|Each run wrote to files outside of the copy of the project: {files}."
            yield Message(text, files=files)

    def _is_in_project(self, path: str) -> bool:
        return any(_is_inside(path, folder) for folder in self._folders)

    def _list(self) -> None:
        """List the project's files and whether each is a directory to copy, outer ones first, up to MOST_FILES."""
        waiting = list(self._folders)
        for folder in waiting:  # grows in the loop
            try:
                inside = list(islice(os.scandir(folder), MOST_FILES - len(self._listed) + 1))
            except OSError:  # not readable
                continue
            if len(self._listed) + len(inside) > MOST_FILES:
                self._is_whole = self._listed[folder] = False
                self.is_copied = self.is_copied and folder not in self._folders
                continue
            for entry in inside:
                is_copied = entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
                is_copied = is_copied and not Path(entry.path, "pyvenv.cfg").exists()
                if entry.path != self.root:
                    self._listed[entry.path] = is_copied
                    waiting += [entry.path] if is_copied else []

    def _restore(self) -> None:
        """Remove files that a run has created or changed, and create missing ones."""
        for folder, folders, files in os.walk(self.root, topdown=False):
            for path in (os.path.join(folder, name) for name in (*files, *folders)):
                if self._states.get(path) != file_state(path):
                    (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)
        for project in self._folders:
            for parent in reversed(Path(project).parents):
                self._make_folder(str(parent))
                with contextlib.suppress(PermissionError):
                    for entry in os.scandir(parent):
                        self._make_link(entry.path)
            self._make_folder(project)
        for path, is_copied in self._listed.items():
            (self._make_folder if is_copied else self._make_file)(path)

    def _deliver(self) -> None:
        """Move new files above the project, such as `../log`, to the places where a plain run writes them."""
        folders = self._folders if self.is_copied else []
        above = {str(parent) for folder in folders for parent in Path(folder).parents}
        for entry in [entry for folder in above for entry in os.scandir(self.root + folder)]:
            target = entry.path.removeprefix(self.root)
            if self._states.get(entry.path) != file_state(entry.path):
                self._note_created(target)
                with contextlib.suppress(OSError):  # a plain run cannot write there either
                    shutil.move(entry.path, target)
                    self._written.update(dict.fromkeys([target, *map(str, Path(target).rglob("*"))]))

    @contextlib.contextmanager
    def _hidden(self) -> Iterator[None]:
        """Hide in the block what an earlier run created next to or above the project (`../cache.pt`), unless it was downloaded.

        Each run starts with the same files. Those of the first run, which is the program unchanged, stay.
        """
        parents = {str(parent) for folder in self._folders for parent in Path(folder).parents[:2]}
        near = [] if self._downloads else [folder for folder in parents if folder not in (os.sep, gettempdir())]
        with TemporaryDirectory(prefix="autograder-") as aside:
            hidden: dict[str, str] = {}
            for path in sorted(self._created):  # folders before their contents
                is_near = any(_is_inside(path, folder) and "/." not in path[len(folder) :] for folder in near)
                if is_near and os.path.lexists(path) and not _is_of_library(path):
                    hidden[path] = shutil.move(path, os.path.join(aside, str(len(hidden))))
            try:
                yield
            finally:
                for path, kept in hidden.items():
                    if os.path.isdir(path) and not os.path.islink(path):
                        shutil.rmtree(path)
                    elif os.path.lexists(path):
                        os.unlink(path)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    shutil.move(kept, path)

    def _make_folder(self, path: str) -> None:
        made = self.root + path
        if path != "/" and not os.path.isdir(made):
            os.mkdir(made)
            self._states[made] = file_state(made)

    def _make_link(self, path: str) -> None:
        made = self.root + path
        on_the_way = any(_is_inside(folder, path) for folder in self._folders)
        if not on_the_way and not os.path.lexists(made):
            os.symlink(path, made)
            self._states[made] = file_state(made)

    def _make_file(self, path: str) -> None:
        made = self.root + path
        if os.path.lexists(made):
            return
        kind, size, _ = look = file_state(path)
        is_file = stat.S_ISREG(kind)
        if not (is_file and size <= LARGE and self._bytes + size <= MOST_BYTES and copied(path, made)):
            os.symlink(self.path_of(os.path.realpath(path)) if stat.S_ISLNK(kind) else path, made)
            if is_file:
                self._linked.setdefault(path, look)
        elif made not in self._states:
            self._bytes += size
        self._states[made] = file_state(made)

    @contextlib.contextmanager
    def _replaced_writers(self) -> Iterator[None]:
        """Let imported modules find their copies in `__file__`, and copy the target of `torch.save` before it is opened."""

        def execute_copied(execute: Callable[..., Any], loader: Any, module: Any) -> None:
            module.__file__ = self.path_of(module.__file__)
            execute(loader, module)

        def write_copied(write: Callable[..., Any], target: Any) -> Any:
            if isinstance(target, (str, os.PathLike)):  # opened in C++, without an audit event (PyTorch 2.13)
                self._handle(self._on_open, target, None, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            return write(target)

        with (
            wrapping(SourceFileLoader, "exec_module", execute_copied),
            wrapping(serialization, "_open_zipfile_writer", write_copied),
        ):
            yield

    def _guard(self) -> Callable[[str, tuple[Any, ...]], None]:
        """Return the audit hook."""
        handlers: dict[str, Callable[..., Any]] = {
            "open": self._on_open,
            "os.mkdir": lambda path, _mode, folder: self._note_created(self._place(path, folder)),
            "os.link": self._on_link,
            "os.symlink": lambda _path, new, folder: self._note_created(self._place(new, folder)),
            "os.truncate": lambda path, _size: self._on_open(path, None, os.O_WRONLY),
            "os.rename": self._on_rename,
            "os.remove": lambda path, folder: self._on_remove(self._place(path, folder)),
            "os.rmdir": self._on_rmdir,
            "socket.connect": lambda *_: setattr(self, "_downloads", True),
            "shutil.rmtree": lambda path, folder=-1: self._on_remove(os.path.realpath(self._taken(path, folder))),
        }

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            handler = handlers.get(event)
            if handler is None or isinstance(arguments[0], int):
                return
            if self._is_running:
                self._handle(handler, *arguments)
            in_thread = threading.current_thread() is not threading.main_thread()
            if not self._is_running and in_thread:  # the run may have ended meanwhile
                _check_late_write(event, arguments)

        return hook

    def _handle(self, handler: Callable[..., Any], *arguments: object) -> None:
        """Call a handler, whose own changes of files are ignored."""
        if self._thread != threading.get_ident():
            before, self._thread = self._thread, threading.get_ident()
            try:
                handler(*arguments)
            finally:
                self._thread = before

    def _on_open(self, path: Any, _mode: Any, flags: int) -> None:
        if flags & os.O_EXCL and os.path.lexists(path):
            return  # the call fails; `mkstemp` then tries another name
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._note_written(os.path.realpath(self._taken(path, keeps=not flags & os.O_TRUNC)))

    def _on_link(self, path: Any, new: Any, folder: int, new_folder: int) -> None:
        self._taken(path, folder)
        self._note_created(self._place(new, new_folder))

    def _on_rename(self, old: Any, new: Any, folder: int, new_folder: int) -> None:
        self._on_remove(self._taken(old, folder))
        self._note_written(self._place(new, new_folder))

    def _on_rmdir(self, path: Any, folder: int) -> None:
        place = self._taken(path, folder)
        # The call fails for a folder with contents; `os.removedirs` counts on that, for example in Triton's cache.
        if not (os.path.isdir(place) and os.listdir(place)):
            self._on_remove(place)

    def _on_remove(self, place: str) -> None:
        """Refuse to remove a file that existed before the runs."""
        if _is_inside(place, self.root) or not os.path.lexists(place):
            return
        if not any(_is_inside(place, created) for created in self._created):
            frames = (frame for frame, _ in traceback.walk_stack(sys._getframe()))
            at = next((frame for frame in frames if is_own_file(frame.f_code.co_filename)), sys._getframe())
            file = os.path.relpath(at.f_code.co_filename.removeprefix(self.root), self.original)
            self._refused = ProgramError.of(
                "scratch.removes|{file}, line {line}: the program removes {path}, which is outside of the project "
                "and existed before, so explain ended the run. Leave this line out, or move the file into the project.",
                file=file, line=at.f_lineno, path=place,
            )  # fmt: skip
            raise self._refused

    def _note_created(self, place: str) -> None:
        if not _is_inside(place, self.root) and not os.path.lexists(place):
            self._created.add(place)

    def _note_written(self, place: str) -> None:
        self._note_created(place)
        if not _is_inside(place, self.root):
            self._written[place] = None

    def _taken(self, path: Any, folder: int = -1, *, keeps: bool = True) -> str:
        """Return the place of a file that the program may change, after making a copy if it is a link of the copy."""
        place = self._place(path, folder)
        if os.path.islink(place):
            self._replace_link(place, keeps=keeps)
        return place

    def _place(self, path: Any, folder: int = -1) -> str:
        """Return the path without links, except for the last part. Links of the copy on the way to it are replaced."""
        full = os.fsdecode(path)
        if not os.path.isabs(full):
            full = os.path.join(os.getcwd() if folder in (-1, None) else _opened_folder(folder), full)
        *outer, name = full.rstrip(os.sep).split(os.sep)
        place = os.sep
        for part in outer:
            place = os.path.dirname(place) if part == os.pardir else os.path.join(place, part)
            if os.path.islink(place):
                self._replace_link(place)
                place = os.path.realpath(place)
        place = os.path.normpath(os.path.join(place, name))
        # The copy also has folders above the project, but these files are not a part of it.
        original = place.removeprefix(self.root)
        return place if self._is_in_project(original) else original

    def _replace_link(self, link: str, *, keeps: bool = True) -> None:
        """Replace a link of the copy with a copy of the file (and its content if `keeps`), or with links to its contents."""
        original = link.removeprefix(self.root)
        if link == original or os.readlink(link) != original or not self._is_in_project(original):
            return
        if os.path.isdir(original):
            os.unlink(link)
            os.mkdir(link)
            for entry in os.scandir(original):
                os.symlink(entry.path, os.path.join(link, entry.name))
        elif not keeps or os.path.getsize(original) < shutil.disk_usage(self.root).free:
            os.unlink(link)
            if keeps:
                shutil.copyfile(original, link)


class _ProjectFinder:
    """Finds modules in a folder of the project, unless the program wrote them into its copy."""

    def __init__(self, scratch: ScratchFolder, folder: str, copy: str):
        self._scratch = scratch
        self._finders = [pkgutil.get_importer(folder), pkgutil.get_importer(copy)]

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module, or None."""
        specs = (finder.find_spec(name, target) for finder in self._finders if finder is not None)
        known = (spec for spec in specs if spec is not None)
        return next((spec for spec in known if not (spec.origin and self._scratch.is_changed(spec.origin))), None)


def _check_late_write(event: str, arguments: tuple[Any, ...]) -> None:
    """End a thread that outlived its run if it writes to a relative path, which names the user's file now."""
    reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if not reads and event != "socket.connect" and not os.path.isabs(os.fsdecode(arguments[0])):
        raise SystemExit  # which ends the thread without a message


def _opened_folder(descriptor: int) -> str:
    if hasattr(fcntl, "F_GETPATH"):  # macOS
        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _is_of_library(path: str) -> bool:
    """Return whether a library keeps this file between runs of any program, or `torch.distributed` writes it at import (2.6).

    A file below /proc is not on a disk: absl (2.5) writes the name of the process there.
    """
    caches = (
        os.path.expanduser("~/.cache/"),
        os.path.expanduser("~/.config/"),
        f"{gettempdir()}/torchinductor_",
        "/proc/",
    )
    return path.startswith(caches) or "__pycache__" in path or path.endswith("/_remote_module_non_scriptable.py")


def copied(path: str, made: str) -> bool:
    """Copy a file with its mode and times, and return whether it could be read."""
    try:  # `shutil.copy2` takes eight times as long (Linux 6.18)
        content, state = Path(path).read_bytes(), os.stat(path)
    except OSError:
        return False
    Path(made).write_bytes(content)
    os.chmod(made, stat.S_IMODE(state.st_mode))
    os.utime(made, ns=(state.st_atime_ns, state.st_mtime_ns))
    return True


def file_state(path: str) -> FileState:
    """Return the properties that show a change of a file, or zeros if it does not exist."""
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return 0, 0, 0
    kind = stat.S_IFMT(state.st_mode)
    return (kind, state.st_size, state.st_mtime_ns) if stat.S_ISREG(kind) else (kind, 0, 0)

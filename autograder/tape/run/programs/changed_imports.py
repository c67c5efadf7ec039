"""Project files that are imported with another text than the one that lies on disk."""

from __future__ import annotations

import linecache
import os
import sys
import types
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

from autograder.tape.run.programs.source_text import compiled


class ChangedImports(MetaPathFinder):
    """Inside, `import` finds these texts instead of the files; nothing is written, and afterwards the files count again.

    Attributes:
        texts: the texts by the files' real paths.
    """

    def __init__(self, texts: dict[str, str]):
        self.texts = {os.path.realpath(path): text for path, text in texts.items()}

    def __enter__(self) -> None:
        self.lines = {path: linecache.cache.get(path) for path in self.texts}
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)
        for path, known in self.lines.items():
            linecache.cache.pop(path, None)
            if known:
                linecache.cache[path] = known

    def find_spec(self, fullname: str, path=None, target=None) -> ModuleSpec | None:
        """Returns how to load a module whose text is changed, None for any other."""
        spec = PathFinder.find_spec(fullname, path, target)
        place = os.path.realpath(spec.origin) if spec and spec.origin else ""
        if spec is None or place not in self.texts:
            return None
        spec.loader = _TextLoader(fullname, spec.origin or place, self.texts[place])
        return spec


class _TextLoader(SourceFileLoader):
    """Loads a module from a text, past the file and its compiled form."""

    def __init__(self, fullname: str, path: str, text: str):
        super().__init__(fullname, path)
        self.text = text

    def get_code(self, fullname: str) -> types.CodeType:
        return compiled(self.text, self.path)

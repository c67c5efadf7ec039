"""The front-end module is checked by the TypeScript compiler, through its JSDoc types."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autograder.tape.recording.schema import from_json
from autograder.view.scene.composition import build_scene
from tests.npm import installed

pytestmark = pytest.mark.slow  # fetches the compiler from npm, and uses it for nothing else

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "assets"
COMPILER = "typescript@7.0.2"
SETTINGS = ["--strict", "--allowJs", "--checkJs", "--noEmit", "--target", "es2022", "--module", "esnext"]
LIBRARIES = ["--lib", "es2022,dom,dom.iterable", "--types", ""]

Check = Callable[[Path], list[str]]


@pytest.fixture(scope="module")
def errors(tmp_path_factory) -> Check:
    """Return a function that gives the compiler's complaints about a file, one a line."""
    compiler = installed(COMPILER, tmp_path_factory.mktemp("npm")) / ".bin" / ("tsc.cmd" if os.name == "nt" else "tsc")

    def complaints(file: Path) -> list[str]:
        found = subprocess.run([compiler, *SETTINGS, *LIBRARIES, file], capture_output=True, text=True)
        assert bool(found.returncode) == bool(found.stdout), found.stderr
        return found.stdout.splitlines()

    return complaints


@pytest.fixture
def copy(tmp_path) -> Path:
    """A folder with copies of the module and its types."""
    for name in ("graph.js", "answer.js", "board.js", "counters.js", "timeline.js", "scene.d.ts"):
        shutil.copy(ASSETS / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["graph.js", "answer.js", "board.js", "counters.js", "timeline.js"])
def test_the_module_keeps_to_its_types(errors, name):
    """Strict checking finds no unknown name, no missing null check, and no field that a scene does not have."""
    assert [] == errors(ASSETS / name)


@pytest.mark.parametrize(("old", "new", "complaint"), [
    pytest.param("scene.frames[at]", "scene.frame[at]", "TS2551", id="no such field of a scene"),
    pytest.param("this.stop()", "this.halt()", "TS2339", id="no such method"),
    pytest.param("get(frame.line)?.[0]", "get(frame.line)[0]", "TS2532", id="a line that may be missing"),
])  # fmt: skip
def test_a_slip_is_noticed(errors, copy, old, new, complaint):
    """The test above can fail: a mistyped name or a forgotten case is an error."""
    module = copy / "graph.js"
    text = module.read_text("utf-8")
    assert old in text
    module.write_text(text.replace(old, new, 1), "utf-8")

    assert any(complaint in line for line in errors(module))


@pytest.mark.parametrize("predict", [False, True])
def test_python_sends_what_the_types_declare(errors, copy, predict):
    """Every stored recording's scene has exactly the declared fields, each of its declared type."""
    recordings = sorted((ROOT / "tests" / "view" / "recordings").glob("*.json"))
    scenes = [build_scene(from_json(file.read_bytes()), predict) for file in recordings]
    values = [f"const s{i}: Scene = {msgspec.json.encode(scene).decode()};\n" for i, scene in enumerate(scenes)]
    (copy / "scenes.ts").write_text('import type { Scene } from "./scene";\n' + "".join(values), "utf-8")

    assert len(recordings) > 5
    assert [] == errors(copy / "scenes.ts")


def test_a_field_that_is_not_declared_is_noticed(errors, copy):
    """The test above can fail: neither a new field nor a missing one passes."""
    fields = '"top": 0, "width": 1, "height": 1, "shapes": [], "title": "", "parent": null'
    values = {"less": f"{{{fields}}}", "more": f'{{{fields}, "left": 0, "depth": 1}}'}
    lines = [f"const {name}: Drawing = {value};\n" for name, value in values.items()]
    (copy / "drawings.ts").write_text('import type { Drawing } from "./scene";\n' + "".join(lines), "utf-8")

    assert 2 == sum("error TS" in line for line in errors(copy / "drawings.ts"))

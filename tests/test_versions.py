"""The command that runs the corpus on several releases of PyTorch, and the page with its table."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_has_the_oldest_release_that_may_be_installed():
    """The table begins with the lower bound of pyproject.toml, and each release in it has every outcome right."""
    (bound,) = [
        one.removeprefix("torch>=")
        for one in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
        if one.startswith("torch>=")
    ]
    page = (ROOT / "docs" / "versions.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+\.\d+)\.\d+ \| (\d+)/(\d+) \| (\d+)/(\d+) ", page, re.M)

    assert bound == rows[0][0]
    assert all(passed == facts and right == asked for _, passed, facts, right, asked in rows)


def test_repo2docker_takes_the_environment():
    """Binder builds environment.yml: no file that repo2docker prefers exists, and its `--editable .` is this project.

    repo2docker looks into `binder/` and `.binder/` first, and takes a Dockerfile before environment.yml.
    """
    assert not [name for name in ("binder", ".binder", "Dockerfile") if (ROOT / name).exists()]
    found = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    names = [one for one in found["dependencies"] if isinstance(one, str)]
    pip = next(one["pip"] for one in found["dependencies"] if isinstance(one, dict))
    assert any(name.startswith("python=3.") for name in names)
    assert "pip" in names
    assert any(name.startswith("jupyterlab=") for name in names)
    assert ["--editable .[test,cluster]"] == pip
    assert (ROOT / "pyproject.toml").is_file()

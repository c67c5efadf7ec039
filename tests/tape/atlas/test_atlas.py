"""The atlas of the tensors that each operation keeps: the tables in the package, the accepted names, and the command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autograder.api import explain
from autograder.cli import main
from autograder.tape.atlas import atlas_text
from autograder.tape.atlas.atlas_text import (
    find_operations,
    known_versions,
    load_atlas,
    nearest_version,
    operation_text,
    sentence,
)

ROOT = Path(__file__).resolve().parents[3]
ATLAS = load_atlas("2.13.0")


def kept(word: str) -> set[str]:
    """Return the tensors that the only operation of a name keeps."""
    (operation,) = find_operations(ATLAS, word)
    return {keep.what for keep in operation.keeps}


@pytest.mark.parametrize("version", known_versions())
def test_a_table_covers_nearly_every_differentiable_operation(version):
    """At least 536 are covered, each once; what is kept is an argument or an output, for a gradient that there is."""
    atlas = load_atlas(version)
    assert (atlas_text.FORMAT, version) == (atlas.format, atlas.pytorch)
    assert 536 <= len(atlas.operations) == len({one.key for one in atlas.operations})
    for one in atlas.operations:
        assert {keep.what for keep in one.keeps} <= {*one.arguments, *one.outputs}, one.key
        assert {name for keep in one.keeps for name in keep.gradients} <= set(one.gradients), one.key
    assert [] == [one.name for one in atlas.not_covered if not one.why]


@pytest.mark.parametrize("version", known_versions())
def test_each_disagreement_is_explained(version):
    """If the guard and the need differ, a note explains why; no note says that the reason is unknown."""
    for one in load_atlas(version).operations:
        differing = {keep.what for keep in one.keeps if keep.guarded is not keep.read}
        noted = {note.partition(":")[0].partition(",")[0] for note in one.notes}
        assert differing == noted, one.key
        assert [] == [note for note in one.notes if "is not known" in note], one.key


@pytest.mark.parametrize(("word", "what"), [
    ("exp", {"output"}),
    ("sin", {"input"}),
    ("add", set()),
    ("mul", {"input", "other"}),
    ("nn.functional.relu", {"output"}),
    ("sum", set()),
    ("mm", {"input", "mat2"}),
])  # fmt: skip
def test_what_the_formulas_of_calculus_need_is_kept(word, what):
    """By hand: the derivative of exp is its output, that of sin needs the input, and that of a product the other factor."""
    assert what == kept(word)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("torch.nn.functional.relu", "nn.functional.relu"), ("F.relu", "nn.functional.relu"),
        ("relu", "nn.functional.relu"), ("relu_", "nn.functional.relu"), ("nn.ReLU", "nn.functional.relu"),
        ("torch.nn.BatchNorm2d", "nn.functional.batch_norm"), ("nn.Conv2d", "nn.functional.conv2d"),
        ("Tensor.exp_", "exp"), ("torch.Tensor.exp_()", "exp"), ("torch.exp", "exp"), ("ExpBackward0", "exp"),
        ("multiply", "mul"), ("*", "mul"), ("*=", "mul"), ("__imul__", "mul"), ("@", "matmul"), ("**", "pow"),
        ("/", "true_divide"), ("torch.linalg.inv", "linalg.inv"), ("inverse", "linalg.inv"), ("max", "max"),
        ("max (binary)", "max"),
    ],
)  # fmt: skip
def test_a_name_is_found_as_it_is_written(word, name):
    """Functions, methods, in-place forms, modules, operators and kinds of node lead to the operation."""
    found = {one.name for one in find_operations(ATLAS, word)}
    assert name in found
    assert 1 == len(found) or word.endswith("Backward0")


def test_every_table_lists_what_its_own_names_find():
    """Each operation is found by its name and by its name and form."""
    for one in ATLAS.operations:
        assert one in find_operations(ATLAS, one.name)
        assert [one] == find_operations(ATLAS, one.key) or not one.form


NEAR = {"expp": "exp", "torch.softmaxx": "softmax", "matmull": "matmul"}
UNLIKE = dict.fromkeys(
    ["", " ", "🤖", "xyzzy9", "backward(", "torch.", "_", "\n"], "is not a known differentiable operation"
)


@pytest.mark.parametrize(("word", "said"), (NEAR | UNLIKE).items())
def test_an_unknown_name_is_told_with_names_that_are_near(word, said, capsys):
    """One sentence on standard error, exit code 2, empty standard output; without near names, it says how to write one."""
    assert 2 == main(["atlas", word])
    told = capsys.readouterr()
    assert ("", 1) == (told.out, len(told.err.splitlines()))
    assert repr(word) in told.err or word in UNLIKE
    assert said in told.err


def test_an_operation_is_told_on_a_screen(capsys):
    """The kept tensors, the permitted writes, the in-place form, and the release for which this is valid."""
    assert 0 == main(["atlas", "exp"])
    told = capsys.readouterr().out
    assert "exp keeps its output: modify a copy, or use an out-of-place operation." in told
    assert "may be written" in told
    assert "exp_" in told
    assert f"PyTorch {torch.__version__.partition('+')[0]}" in told


@pytest.mark.parametrize("version", known_versions())
def test_each_operation_fits_on_a_screen(version):
    """All forms of an operation take at most forty lines, and each form has its sentence there."""
    atlas = load_atlas(version)
    for one in atlas.operations:
        told = operation_text(find_operations(atlas, one.name))
        assert len(told.splitlines()) <= 40, one.key
        assert sentence(one) in told, one.key


def test_the_summary_says_how_to_go_on(capsys):
    """The numbers of operations that keep inputs, outputs or no tensor, with the total; and commands for more."""
    assert 0 == main(["atlas"])
    told = capsys.readouterr().out
    counts = [int(line.split()[0]) for line in told.splitlines() if " keep " in line and "such as" in line]
    assert 4 == len(counts)
    assert len(load_atlas().operations) == sum(counts)
    assert "autograder atlas exp" in told
    assert "autograder atlas --json" in told


def test_json_is_the_whole_table(capsys):
    """The output is exactly the file in the package, one object."""
    assert 0 == main(["atlas", "--json"])
    told = json.loads(capsys.readouterr().out)
    stored = atlas_text.TABLES / f"{nearest_version(atlas_text.installed_version())}.json"
    assert json.loads(stored.read_text("utf-8")) == told
    assert {"format", "pytorch", "operations", "not_covered"} == set(told)


def test_two_releases_are_compared(capsys):
    """New, removed and changed operations are listed; a release does not differ from itself."""
    older, newer = known_versions()[0], known_versions()[-1]
    assert 0 == main(["atlas", "--diff", older, newer])
    told = capsys.readouterr().out
    assert f"only in {newer}" in told
    same = atlas_text.difference("2.13.0", "2.13.0")
    assert 1 == len(same.splitlines())
    assert f"{len(ATLAS.operations)} keep the same" in same


@pytest.mark.parametrize(("words", "told"), [
    (["--diff", "2.13.0", "1.0"], "There is no atlas of PyTorch '1.0'"),
    (["--diff", "../2.13.0", "2.13.0"], "There is no atlas of PyTorch '../2.13.0'"),
    (["--diff", "2.13.0"], "expected 2 arguments"),
    (["exp", "--json"], "not allowed with"),
])  # fmt: skip
def test_wrong_use_is_one_sentence(words, told, capsys):
    """A release without a table gets a message with those that have one; exit code 2."""
    try:
        code = main(["atlas", *words])
    except SystemExit as ended:
        code = ended.code
    seen = capsys.readouterr()
    assert (2, "", 1) == (code, seen.out, len(seen.err.splitlines()))
    assert told in seen.err


@pytest.mark.parametrize(("version", "nearest"), [
    ("2.13.0", "2.13.0"),
    ("2.13.1", "2.13.0"),
    ("2.6.0", known_versions()[0]),
    ("9.0", known_versions()[-1]),
    (None, known_versions()[-1]),
])  # fmt: skip
def test_the_nearest_table_is_taken(version, nearest):
    """The release itself, else the one nearest to it; the newest where PyTorch is not installed."""
    assert nearest == nearest_version(version)


def test_another_release_is_told(monkeypatch):
    """The answer names the installed release and the release of the table."""
    monkeypatch.setattr(atlas_text, "installed_version", lambda: "2.13.1")
    assert "PyTorch 2.13.1 is installed here; this is the table of 2.13.0" in atlas_text.of_operation("exp")


def test_the_atlas_needs_no_torch():
    """The command works if PyTorch is not installed, and says so; if it is, nothing imports it."""
    code = (
        "import importlib.metadata as m, sys; real = m.version\n"
        "def version(name):\n"
        "    if name == 'torch':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version; sys.modules['torch'] = None\n"
        "from autograder.cli import main; sys.exit(main(['atlas', 'exp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    assert "exp keeps its output" in done.stdout
    assert "PyTorch is not installed here" in done.stdout


@pytest.mark.parametrize(("kind", "words"), [
    ("ExpBackward0", "exp keeps its output: modify a copy, or use an out-of-place operation."),
    ("MulBackward0", "mul keeps `input` (for the gradient of other) and `other` (for the gradient of input)"),
    ("AddBackward0", ""),
    ("MyFunctionBackward", ""),
    ("AccumulateGrad", ""),
])  # fmt: skip
def test_a_kind_of_node_has_the_words_of_its_operation(kind, words):
    """The description of a harm names the operation of the node; a node that keeps no tensor has no description."""
    told = atlas_text.words_on_node(kind)
    assert told.startswith(words)
    assert bool(told) is bool(words)


def test_explain_says_what_the_operation_keeps():
    """The text of a harm ends with the sentence of the atlas on the node that had saved the tensor."""
    wrong = "import torch\n\nw = torch.ones(2, requires_grad=True)\na = w.exp()\na.add_(1)\na.sum().backward()\n"
    assert "exp keeps its output: modify a copy, or use an out-of-place operation." in repr(
        explain(wrong, repair=False)
    )

"""Data classes and files of the atlas. The package contains one table per measured PyTorch release."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from pathlib import Path

import msgspec

from autograder.errors import InputError
from autograder.locale.translations import in_english

FORMAT = 1
TABLES = Path(__file__).parent / "tables"


class Keep(msgspec.Struct, frozen=True):
    """A tensor that an operation saves.

    Attributes:
        what: name of the argument or output.
        gradients: names of the arguments whose gradients need the tensor.
        when: condition on the call, such as "where exponent is a tensor"; "" for all calls.
        guarded: whether `backward()` raises an error after an in-place modification of the tensor.
        read: whether a gradient changes if the values are modified without a change of the version counter.
    """

    what: str
    gradients: tuple[str, ...] = msgspec.field(name="for")
    when: str
    guarded: bool
    read: bool


class InPlaceForm(msgspec.Struct, frozen=True):
    """The tensors that the in-place form of an operation saves. "input" is the modified first argument."""

    name: str
    keeps: tuple[Keep, ...]


class Operation(msgspec.Struct, frozen=True):
    """The tensors that an operation saves.

    Attributes:
        name: name below `torch`, such as "exp" or "nn.functional.relu".
        form: variant of the call, if PyTorch tests several, such as "reduction_with_dim"; else "".
        aliases: other names of the operation.
        nodes: names of the node classes in its graph.
        calls: number of observed calls.
        arguments: names of its tensor arguments.
        outputs: names of its outputs.
        gradients: names of the arguments that can have a gradient.
        keeps: the saved tensors; empty if the operation saves nothing.
        in_place: the in-place form, or None.
        notes: sentences on differences between PyTorch's version check and the values that backward reads.
    """

    name: str
    aliases: tuple[str, ...]
    nodes: tuple[str, ...]
    calls: int
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    gradients: tuple[str, ...]
    keeps: tuple[Keep, ...]
    form: str = ""
    in_place: InPlaceForm | None = None
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name and the form, such as "max (binary)"."""
        return _key(self.name, self.form)


class NotCovered(msgspec.Struct, frozen=True):
    """A differentiable operation that could not be observed, and the reason."""

    name: str
    why: str
    form: str = ""

    @property
    def key(self) -> str:
        """The name and the form."""
        return _key(self.name, self.form)


def _key(name: str, form: str) -> str:
    return f"{name} ({form})" if form else name


class Atlas(msgspec.Struct, frozen=True):
    """The table of one PyTorch release."""

    format: int
    pytorch: str
    operations: tuple[Operation, ...]
    not_covered: tuple[NotCovered, ...]


def known_versions() -> list[str]:
    """Return the releases that have a table, oldest first."""
    return sorted((file.stem for file in TABLES.glob("*.json")), key=_place)


def nearest_version(version: str | None) -> str:
    """Return the release with a table that is closest to `version`, or the newest if `version` is None.

    Of two equally close releases, return the older one.
    """
    known = known_versions()
    if version is None:
        return known[-1]
    return min(known, key=lambda one: abs(_place(one) - _place(version)))


def _place(version: str) -> int:
    """Return the three version numbers as a single integer, for comparison."""
    major, minor, patch = map(int, [*re.findall(r"\d+", version), "0", "0", "0"][:3])
    return (major * 1000 + minor) * 1000 + patch


def installed_version() -> str | None:
    """Return the version of the installed PyTorch without importing it, or None if it is not installed."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def table_text(version: str) -> str:
    """Return the JSON text of a table.

    Args:
        version: a release that has a table, such as "2.13.0".

    Raises:
        InputError: if the release has no table; the message lists the releases that do.
    """
    known = known_versions()
    if version not in known:
        raise InputError(
            in_english(
                "There is no atlas of PyTorch {version}; available are {known}.",
                version=repr(version),
                known=", ".join(known),
            )
        )
    return (TABLES / f"{version}.json").read_text("utf-8")


@functools.cache
def load_atlas(version: str | None = None) -> Atlas:
    """Return the table of a release, by default of the release closest to the installed PyTorch.

    Raises:
        InputError: if the release has no table.
    """
    return msgspec.json.decode(table_text(version or nearest_version(installed_version())), type=Atlas)

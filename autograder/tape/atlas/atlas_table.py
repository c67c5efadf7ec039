"""The tables that lie in the package, one for each release of PyTorch that was measured, as plain data."""

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
    """One tensor that is kept.

    Attributes:
        what: the name of an argument or output.
        gradients: for whose gradient, as names of arguments.
        when: in which calls, such as "where exponent is a tensor"; "" for all.
        guarded: backward refuses after a write in place to it.
        read: a value put in without a counted write changes a gradient.
    """

    what: str
    gradients: tuple[str, ...] = msgspec.field(name="for")
    when: str
    guarded: bool
    read: bool


class InPlaceForm(msgspec.Struct, frozen=True):
    """What the form that writes its result into its first argument keeps; "input" is that tensor with its new values."""

    name: str
    keeps: tuple[Keep, ...]


class Operation(msgspec.Struct, frozen=True):
    """What one operation keeps.

    Attributes:
        name: as below `torch`, such as "exp" or "nn.functional.relu".
        form: which way of calling it, where PyTorch tests several, such as "reduction_with_dim"; else "".
        aliases: its other names.
        nodes: the kinds of node that its graph was built of.
        calls: how many calls were observed.
        arguments: its arguments that are tensors.
        outputs: its outputs.
        gradients: the arguments that can have a gradient.
        keeps: what it keeps; empty for nothing.
        in_place: the in-place form, None if there is no such form.
        notes: sentences on where PyTorch's guard and PyTorch's need differ.
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
        """Its name and form, such as "max (binary)"."""
        return _key(self.name, self.form)


class NotCovered(msgspec.Struct, frozen=True):
    """A differentiable operation that could not be observed, and why."""

    name: str
    why: str
    form: str = ""

    @property
    def key(self) -> str:
        """Its name and form."""
        return _key(self.name, self.form)


def _key(name: str, form: str) -> str:
    return f"{name} ({form})" if form else name


class Atlas(msgspec.Struct, frozen=True):
    """The table of one release of PyTorch."""

    format: int
    pytorch: str
    operations: tuple[Operation, ...]
    not_covered: tuple[NotCovered, ...]


def known_versions() -> list[str]:
    """Returns the releases that have a table, the oldest first."""
    return sorted((file.stem for file in TABLES.glob("*.json")), key=_place)


def nearest_version(version: str | None) -> str:
    """Return the release with a table that is nearest to a version: the older of two as near; the newest for no version."""
    known = known_versions()
    if version is None:
        return known[-1]
    return min(known, key=lambda one: abs(_place(one) - _place(version)))


def _place(version: str) -> int:
    """Returns where a release stands among all: its three numbers as one."""
    major, minor, patch = map(int, [*re.findall(r"\d+", version), "0", "0", "0"][:3])
    return (major * 1000 + minor) * 1000 + patch


def installed_version() -> str | None:
    """Returns PyTorch's version without importing it; None where it is not installed."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def table_text(version: str) -> str:
    """Returns a table as the JSON that it is stored as.

    Args:
        version: a release that has one, such as "2.13.0".

    Raises:
        InputError: there is no table of it; the message names those that there are.
    """
    known = known_versions()
    if version not in known:
        raise InputError(
            in_english(
                "There is no atlas of PyTorch {version}; there is one of {known}.",
                version=repr(version),
                known=", ".join(known),
            )
        )
    return (TABLES / f"{version}.json").read_text("utf-8")


@functools.cache
def load_atlas(version: str | None = None) -> Atlas:
    """Returns the table of a release; of the one nearest to the installed PyTorch where none is named.

    Raises:
        InputError: there is no table of it.
    """
    return msgspec.json.decode(table_text(version or nearest_version(installed_version())), type=Atlas)

"""pytest plug-in: the fixture and the marker `autograd_guard`, which watch the backward calls of a test.

An error in backward gets a note with the line that modified a tensor in place. A test in which a saved tensor was
modified without an error fails, with a sentence that names the line. A test that expects an error (`pytest.raises`)
passes as before.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

NAME = "autograd_guard"


def pytest_configure(config: Any) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", f'{NAME}(check="bytes"): fail if a tensor that backward needs was written into, and report the line'
    )


@pytest.fixture
def autograd_guard(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Watch the test; the value has `harms`, the modifications that were found so far."""
    from autograder.tape.watch.watch_session import watch

    marker = request.node.get_closest_marker(NAME)
    with watch(**({"check": "bytes"} | (marker.kwargs if marker else {}))) as watching, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "autograder: ", RuntimeWarning)
        yield watching


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Fail a test that passed although a saved tensor was modified without an error."""
    passed = yield
    watching: Any = pyfuncitem.funcargs.get(NAME)
    if watching is not None:
        from autograder.tape.watch.post_mortem import is_silent, note_of

        if silent := tuple(harm for harm in watching.harms if is_silent(harm)):
            pytest.fail(note_of(silent), pytrace=False)
    return passed


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Add the fixture to each test that has the marker."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker(NAME) and NAME not in names:
            names.append(NAME)

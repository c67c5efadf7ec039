"""A key's text names one part of the picture and no other."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from autograder.view.shapes import Key, Label, Part

numbers, labels = st.integers(0, 12), st.sampled_from(get_args(Label))
names = st.sampled_from([part for part in get_args(Part) if part != "line"])
parts = st.builds(Key, names, numbers, labels, st.just(0))
lines = st.builds(Key, st.just("line"), numbers, st.just(""), numbers)


@given(st.lists(parts | lines, max_size=30))
def test_different_keys_have_different_texts(keys):
    """No two parts of a picture share a state."""
    assert len(set(keys)) == len(set(map(str, keys)))

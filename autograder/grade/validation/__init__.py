"""Validation of a source before students are graded: model answers must get full points and the release none; weak tests are named."""

"""Grades a class on the workers of a Dask cluster."""

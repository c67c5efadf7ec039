"""Grading on a Dask cluster. Only `--cluster` imports what stands here, and only this room imports Dask."""

"""The side that grades: the plugin in each Dask worker, and the process beside it."""

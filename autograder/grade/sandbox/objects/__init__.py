"""The learner's objects in the worker: which ones the grader knows by handle, and what it may ask of them."""

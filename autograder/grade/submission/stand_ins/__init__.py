"""What a test in the trusted process holds instead of the learner's objects, which stay in the worker."""

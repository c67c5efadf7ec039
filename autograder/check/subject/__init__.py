"""What a check asks: a learner's function, called with given inputs, answers in plain data."""

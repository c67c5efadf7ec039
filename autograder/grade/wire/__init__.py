"""What crosses between the grader and a worker: messages, values, outputs and their limits."""

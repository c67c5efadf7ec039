"""What the grader and a worker send each other: messages, values, outputs and their limits."""

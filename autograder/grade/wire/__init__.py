"""The data that the grader and a worker exchange: messages, plain values, outputs, and their limits."""

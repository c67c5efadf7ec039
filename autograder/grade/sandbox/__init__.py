"""Where submissions run: isolation levels, the server that forks workers, and the worker that runs one submission."""

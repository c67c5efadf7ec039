"""The processes that run submissions: isolation levels, the server that forks workers, and the worker for one submission."""

"""Where submissions run: walls, the server that they are forked from, and the worker that runs one."""

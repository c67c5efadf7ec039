"""Run a program in isolation, and restore the global state of the process afterwards."""

"""The trusted side of the connection to the processes that run submissions."""

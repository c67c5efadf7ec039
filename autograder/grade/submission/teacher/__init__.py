"""The teacher's notebook: its cells, its files, and which of its cells a test needs."""

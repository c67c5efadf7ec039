"""The teacher's notebook: its cells, its files, and the cells that each test needs."""

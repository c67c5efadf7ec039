"""The gradebook: nbgrader's rows, our own beside them, and who may write."""

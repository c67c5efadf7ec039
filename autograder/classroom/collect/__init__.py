"""Conversion of a platform's download to the folders that nbgrader grades."""

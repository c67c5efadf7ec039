"""From what a platform lets a teacher download to the folders that nbgrader grades."""

"""The course's texts, collected for translators, and what holds the translations."""

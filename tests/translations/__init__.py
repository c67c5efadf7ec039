"""The course's texts, collected for translators, and the storage of translations."""

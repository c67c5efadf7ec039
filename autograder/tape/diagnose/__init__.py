"""Evidence from several runs → a verdict with the harms behind it."""

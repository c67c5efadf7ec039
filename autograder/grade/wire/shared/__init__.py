"""State that both processes share as if they were one: random generators, and files."""

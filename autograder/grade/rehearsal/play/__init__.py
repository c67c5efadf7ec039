"""A class that is played before there is one: mutants of the model answers, and cheats that know no solution."""

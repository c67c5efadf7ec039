"""The processing of one submission: reading, alignment with the source, execution, tests and grade."""

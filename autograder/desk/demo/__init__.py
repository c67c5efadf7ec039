"""A made-up class, to try the commands of the teacher's desk on."""

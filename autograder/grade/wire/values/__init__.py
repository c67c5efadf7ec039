"""Data that may cross between the two processes, and the tables that keep track of it on either side."""

"""A class: hand-ins, their order, the gradebook, feedback and the report."""

"""A Recording laid out: what the picture shows at each step, and where."""

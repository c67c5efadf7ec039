"""A Recording as a scene: what the picture shows at each step, and where."""

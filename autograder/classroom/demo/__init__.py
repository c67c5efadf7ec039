"""A generated class for trying the commands that teachers use."""

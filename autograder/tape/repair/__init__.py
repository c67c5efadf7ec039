"""Changes of a program's source that repair it, each one run and compared before it is offered."""

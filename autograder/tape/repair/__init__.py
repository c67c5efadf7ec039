"""Changes of a program's source that repair it; each is run and proven before it is offered."""

"""Search for fixes: changes of a program's source, each offered only after a run has confirmed it."""

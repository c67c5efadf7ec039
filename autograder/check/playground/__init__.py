"""The playground: a program whose lines can be reordered and rewritten, and whose arrangements are judged by running them."""

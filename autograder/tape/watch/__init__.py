"""Watch a running job: keep a log of its calls, and explain errors of backward."""

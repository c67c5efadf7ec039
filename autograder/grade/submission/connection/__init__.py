"""The trusted side of the link to the processes that run submissions: what is sent, what is awaited, what is used."""

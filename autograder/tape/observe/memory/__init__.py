"""Memory: storages, who wrote into them, and whether autograd recorded it."""

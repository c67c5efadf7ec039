"""Memory: storages, who wrote into them, and whether autograd was told."""

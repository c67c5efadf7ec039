"""How a scheduler is reached, or started: addresses, certificates, tables of cluster.toml."""

"""Find the in-place modifications that explain a wrong outcome: a module per kind of harm, and a registry with their order."""

"""Which writes explain a wrong outcome: one file for each kind of harm, and the registry that asks them in order."""

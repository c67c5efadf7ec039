"""The kinds of fix, one module per family. `candidates.KINDS` lists them in order of preference."""

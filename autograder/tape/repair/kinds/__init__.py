"""The kinds of fix, one module per family. `registry` lists them in order of preference."""

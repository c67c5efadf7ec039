"""The kinds of repair, one file a family; `registry` lists them in order of preference."""

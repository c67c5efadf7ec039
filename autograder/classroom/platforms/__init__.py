"""The download formats of the platforms, one module each."""

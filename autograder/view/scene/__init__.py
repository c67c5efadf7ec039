"""Conversion of a Recording to a scene: the contents of the picture at each step, with positions."""

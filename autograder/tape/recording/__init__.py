"""The `Recording` data class and its JSON form. This subpackage does not import torch."""

"""Sentences of made-up words; a capital letter makes a name of any word."""

import torch

TAGS = ("noun", "verb", "name")


def sentences(count, length, words, seed):
    """Yields tokens, capitals and tags."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        tokens = torch.randint(words, (4, length), generator=generator)
        capitals = (torch.rand(4, length, generator=generator) < 0.2).float()
        tags = torch.where(capitals.bool(), 2, tokens % 2)
        yield tokens, capitals, tags

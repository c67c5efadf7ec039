"""Sentences that are translated word by word."""

import torch

PAD, WORDS = 0, 10


def batches(count, rows=4, length=5):
    """Yields sources and targets."""
    generator = torch.Generator().manual_seed(19)
    for _ in range(count):
        source = torch.randint(1, WORDS, (rows, length), generator=generator)
        source[0, 3:] = PAD
        yield source, torch.where(source == PAD, PAD, source % (WORDS - 1) + 1)

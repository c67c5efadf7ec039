"""A package with a fault in each of two files: the encoder adds to what tanh has saved, the decoder masks a softmax."""

# bug: raises-backward
# fixed: correct
# arguments: --steps 2
import argparse

import torch
import torch.nn.functional as F

from .corpus import PAD, batches
from .decoder import Decoder
from .encoder import Encoder


def main():
    parser = argparse.ArgumentParser(prog="translator")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--width", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(19)
    encoder, decoder = Encoder(options.width), Decoder(options.width)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for step, (source, target) in enumerate(batches(options.steps)):
        logits = decoder(target[:, :-1], encoder(source), source == PAD)
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


main()

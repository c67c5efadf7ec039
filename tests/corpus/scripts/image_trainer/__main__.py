"""A package that is run with -m: the model's squeeze-and-excitation writes into what the gate's sigmoid has saved."""

# bug: raises-backward
# fixed: correct
# arguments: --epochs 2
import argparse

from .engine import Engine
from .model import Classifier


def parse():
    parser = argparse.ArgumentParser(prog="image_trainer")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args()


def main():
    options = parse()
    engine = Engine(Classifier, lr=options.lr, seed=47)
    for epoch in range(options.epochs):
        print(f"epoch {epoch}: {engine.epoch():.4f}")


main()

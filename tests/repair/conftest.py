import sys
from pathlib import Path

import torch

# The corpus is a neighbour folder, and `tests` is no package: its folder must be on the path to import from it.
sys.path.append(str(Path(__file__).parents[1]))
# Thousands of runs on a handful of numbers: a second thread only waits for its core.
torch.set_num_threads(1)

"""An atlas of what each operation of PyTorch keeps for backward: a table that was measured once per release, and its words.

The table is data and lies in `tables/`; `python -m tests.atlas` makes it. Nothing here imports torch.
"""

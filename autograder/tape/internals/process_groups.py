"""Process groups are dropped last: a DistributedDataParallel that drops one waits for gloo's threads, and they may wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

import torch

from autograder.tape.internals.entry_points import replaced


@contextmanager
def process_groups_kept() -> Iterator[None]:
    """Inside, a group that `destroy_process_group` ends is kept until the block ends; a group that the block leaves behind is destroyed.

    After `destroy_process_group`, the `Reducer` of a DistributedDataParallel holds the last reference to its group. When it goes, the
    group's destructor joins gloo's threads while this thread holds Python's lock, and a thread that has still to drop a Python object
    waits for that lock: for ever (plain PyTorch 2.13, about one time in a hundred). Python's own reference to a group lets go
    of the lock before it is dropped.
    """
    if not torch.distributed.is_available():
        yield
        return
    from torch.distributed import distributed_c10d

    kept: list[object] = []
    had_group = torch.distributed.is_initialized()
    destroy = distributed_c10d.destroy_process_group

    @wraps(destroy)
    def destroyed(*args, **kwargs):
        kept.extend(distributed_c10d._world.pg_map)
        return destroy(*args, **kwargs)

    with (
        replaced(torch.distributed, "destroy_process_group", destroyed),
        replaced(distributed_c10d, "destroy_process_group", destroyed),
    ):
        try:
            yield
        finally:
            if torch.distributed.is_initialized() and not had_group:
                destroyed()  # with a group left over, `init_process_group` raises in the next run (PyTorch 2.13)

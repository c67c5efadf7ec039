"""Keep references to process groups, because freeing one can deadlock with the threads of gloo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

import torch

from autograder.tape.internals.entry_points import replaced


@contextmanager
def process_groups_kept() -> Iterator[None]:
    """Keep a reference to each group that `destroy_process_group` ends, until the block ends.

    Groups that the block leaves behind are destroyed.

    After `destroy_process_group`, the `Reducer` of a DistributedDataParallel has the last reference to its group. When
    it is freed, the group's destructor joins the threads of gloo while this thread holds the GIL, and a thread that
    still has to free a Python object waits for the GIL: a deadlock (plain PyTorch 2.13, in about 1 % of runs). Python's
    own reference to a group releases the GIL before it frees the group.
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

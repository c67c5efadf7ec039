"""Limits the threads of PyTorch: small tensors do not gain from threads, and threads that wait for a busy core are costly."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """One thread for the time of these tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)

"""Storages: which tensors share memory, and whether its bytes have changed since the last check."""

from __future__ import annotations

import ctypes
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.tape.internals.tensor_fields import has_values, no_dispatch

# Cost of a check (torch 2.13, one core): 44 µs per MiB to copy and compare, 240 µs per MiB for a checksum, 0.3 µs for a
# few bytes. So small storages are copied, larger ones get a checksum, and the largest are sampled: 64 evenly spaced
# blocks of 4 KiB. A modification outside these blocks is not detected, and the verdict reports that storages were
# sampled.
COPIED = 1 << 20
CHECKSUMMED = 1 << 26
SAMPLES, SAMPLE_BYTES = 64, 4096


@dataclass(eq=False)
class Memory:
    """A storage: an address interval and its content at the last check."""

    id: int
    address: int
    size: int
    content: bytes | int | None = None  # its bytes (up to COPIED), or a checksum; None before the first check
    generation: int = 0  # number of detected changes
    # whether it has a foreign alias (NumPy, DLPack, a raw pointer), whose modifications autograd does not detect
    exposed: bool = False
    capsule: bool = False  # whether it was exposed through DLPack
    next_look: int = 0
    patience: int = 1
    # functions that return a tensor in it, or None if it was freed; the address may be read only if a tensor exists
    live_tensors: list[Callable[[], torch.Tensor | None]] = field(default_factory=list)
    saves: list[Any] = field(default_factory=list)  # the saved tensors in it (`TrackedSave`) that are unchanged
    on_device: bool = False  # whether it is the memory of a GPU or another device, which has to be copied to be read

    def alive(self) -> bool:
        """Return whether a tensor still has this address. Remove the entries of freed or moved tensors."""
        while self.live_tensors:
            tensor = self.live_tensors[-1]()
            if tensor is not None and address_of(tensor) == (self.address, self.size):
                return True
            self.live_tensors.pop()
        return False

    def read(self) -> bytes | int | None:
        """Return the current content, or None if it cannot be read now. Call it only while `alive()`."""
        if not self.on_device:
            return _content_at(self.address, self.size)
        tensor = self.live_tensors[-1]() if self.alive() else None
        return None if tensor is None else _content_on_device(tensor, 0, self.size)

    def has_changed(self) -> bool:
        """Return whether the content differs from that of the last check. Call it only while `alive()`."""
        now = None if self.content is None else self.read()
        return now is not None and now != self.content

    def look(self) -> tuple[int, int] | None:
        """Return the range [start, stop) of bytes that changed since the last check (everything for a checksum), or None."""
        now, before = self.read(), self.content
        self.content = before if now is None else now
        if now is None or before is None or now == before:
            return None
        self.generation += 1
        if isinstance(now, int) or isinstance(before, int):
            return 0, self.size
        return changed_interval(before, now)


def _content_at(address: int, size: int) -> bytes | int:
    """Return the bytes of the host's memory, or a checksum if there are more than COPIED."""
    if size <= COPIED:
        return ctypes.string_at(address, size)
    if size <= CHECKSUMMED:
        return zlib.crc32((ctypes.c_char * size).from_address(address))
    stride, sum_ = size // SAMPLES, 0
    for start in range(address, address + size - SAMPLE_BYTES, stride):
        sum_ = zlib.crc32(ctypes.string_at(start, SAMPLE_BYTES), sum_)
    return sum_


def _content_on_device(tensor: torch.Tensor, start: int, size: int) -> bytes | int | None:
    """Return the same for a part of a tensor's storage on a device; None during the capture of a CUDA graph, which a copy would end."""
    storage = tensor.untyped_storage()
    if storage.device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            return None
        torch.cuda.synchronize(storage.device)  # another stream may be writing
    with no_dispatch():
        if size <= CHECKSUMMED:
            copy = storage[start : start + size].cpu()
            return _content_at(copy.data_ptr(), size)
        sum_ = 0
        for first in range(start, start + size - SAMPLE_BYTES, size // SAMPLES):
            block = storage[first : first + SAMPLE_BYTES].cpu()
            sum_ = zlib.crc32(ctypes.string_at(block.data_ptr(), SAMPLE_BYTES), sum_)
        return sum_


def changed_interval(before: bytes, now: bytes) -> tuple[int, int]:
    """Return the smallest range [start, stop) that contains all differences of two unequal byte strings of the same length."""
    difference = int.from_bytes(before, "little") ^ int.from_bytes(now, "little")
    return ((difference & -difference).bit_length() - 1) // 8, (difference.bit_length() + 7) // 8


def fingerprint(tensor: torch.Tensor, memory: Memory | None = None) -> bytes | int:
    """Return a tensor's values in a form for comparison: all bytes up to COPIED, else a checksum; 0 if they cannot be read.

    If the tensor covers all of `memory`, the stored content is used.
    """
    place = address_of(tensor)
    if place is None:
        return 0
    address, size = place
    if extent_of(tensor)[1] > size:  # not allocated, as below
        return 0
    length = int(tensor.numel()) * tensor.element_size()
    if tensor.is_contiguous():
        if memory and length == memory.size and memory.address == address and memory.content is not None:
            return memory.content
        return _content(tensor, int(tensor.storage_offset()) * tensor.element_size(), length)
    if length > 4 * size:  # an expanded tensor; its few values are sufficient
        return _content(tensor, 0, size)
    return _in_parts(tensor.detach())


def _content(tensor: torch.Tensor, start: int, size: int) -> bytes | int:
    """Return the content of `size` bytes of a tensor's storage from `start` on, or 0 if it cannot be read now."""
    if is_on_host(tensor):
        return _content_at(tensor.untyped_storage().data_ptr() + start, size)
    return _content_on_device(tensor, start, size) or 0


def _in_parts(tensor: torch.Tensor) -> bytes | int:
    """Return the fingerprint of a tensor that is not contiguous, without copying a large one as a whole."""
    size = tensor.numel() * tensor.element_size()
    if size > COPIED and len(tensor) > 1:
        half = len(tensor) // 2
        return hash((_in_parts(tensor[:half]), _in_parts(tensor[half:])))
    dense = tensor.contiguous()
    return _content(dense, int(dense.storage_offset()) * dense.element_size(), size)


def elements_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor that stores the elements: the values of a sparse tensor in coordinate format, else the tensor itself."""
    return tensor._values() if tensor.layout == torch.sparse_coo and has_values(tensor) else tensor


def is_zero(tensor: torch.Tensor) -> bool:
    """Return whether all elements are zero."""
    if tensor.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        tensor = tensor.detach().values()  # PyTorch 2.13 has no `any` for these layouts
    return not bool(tensor.any())


def is_on_host(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's memory can be read at its address."""
    return tensor.device.type == "cpu"


def address_of(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the address and size of a tensor's storage, or None if it cannot be read (sparse, meta, functorch)."""
    try:
        # The first fake tensor of a process returns the address 0 with a warning; only later ones raise (PyTorch 2.13).
        if tensor.layout != torch.strided or not has_values(tensor):
            return None
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError):  # a fake, meta, nested or transformed tensor
        return None


def extent_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the range [start, stop) of bytes in its storage that a tensor spans."""
    start = int(tensor.storage_offset()) * tensor.element_size()
    if tensor.numel() == 0:
        return start, start
    last: int = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def is_allocated(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's storage has all its bytes. After `storage.resize_(0)` it has none, and reading one is a fault."""
    place = address_of(tensor)
    return place is None or extent_of(tensor)[1] <= place[1]


class Memories:
    """All storages of a run, by address."""

    def __init__(self) -> None:
        self.all: list[Memory] = []
        self.at: dict[int, Memory] = {}
        self.nowhere: Memory | None = None

    def of(self, tensor: torch.Tensor, *, foreign: bool = False) -> Memory:
        """Return the storage of a tensor. `foreign` means that its memory may start inside another storage."""
        place = address_of(tensor)
        if place is None or place[1] == 0:
            self.nowhere = self.nowhere or self._new(0, 0)
            return self.nowhere
        address, size = place
        memory = self.at.get(address)
        if memory is None and foreign:
            memory = next((m for m in self.at.values() if m.address < address < m.address + m.size and m.alive()), None)
            if memory is not None:
                return memory
        # The address of freed memory may be reused by another storage.
        if memory is None or not memory.alive():
            memory = self._new(address, size)
            memory.on_device = not is_on_host(tensor)
        elif memory.size < size:
            memory.size, memory.content = size, None  # resized in place
        memory.live_tensors.append(weakref.ref(tensor))
        return memory

    def _new(self, address: int, size: int) -> Memory:
        memory = Memory(len(self.all), address, size)
        self.all.append(memory)
        if size:
            self.at[address] = memory
        return memory

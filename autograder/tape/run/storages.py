"""Stretches of memory: which tensors share them, and whether their bytes changed since the last look."""

from __future__ import annotations

import ctypes
import weakref
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from autograder.tape.internals.tensor_fields import has_values

# What a look costs (torch 2.13, one core): copy and compare 44 µs per MiB, checksum 240 µs per MiB, 0.3 µs for a few bytes.
# So storages are copied while the copies stay small beside the program, then checksummed, and beyond that
# only sampled: 64 lines of 4 KiB, evenly spread. A write that misses all of them goes unseen, and the verdict says so.
COPIED = 1 << 20
CHECKSUMMED = 1 << 26
SAMPLES, SAMPLE_BYTES = 64, 4096


@dataclass(eq=False)
class Memory:
    """One storage: an address interval and what it held at the last look.

    Attributes:
        content: its bytes (up to COPIED), else a checksum; None before the first look.
        generation: how many changes were found.
        exposed: a foreign alias (NumPy, DLPack, a raw pointer) exists, through which a write goes unseen; `capsule`: by DLPack.
        saves: the saved tensors in it (`TrackedSave`) that are still what was saved.
        witnesses: functions that return a living tensor in it, or None; only with one may the address be read.
    """

    id: int
    address: int
    size: int
    content: bytes | int | None = None
    generation: int = 0
    exposed: bool = False
    capsule: bool = False
    next_look: int = 0
    patience: int = 1
    witnesses: list[Callable[[], torch.Tensor | None]] = field(default_factory=list)
    saves: list = field(default_factory=list)

    @property
    def sampled(self) -> bool:
        """Whether it is so large that only samples of it are looked at."""
        return self.size > CHECKSUMMED

    def alive(self) -> bool:
        """Returns whether some tensor still lives at this very address; forgets the witnesses that do not."""
        while self.witnesses:
            tensor = self.witnesses[-1]()
            if tensor is not None and address_of(tensor) == (self.address, self.size):
                return True
            self.witnesses.pop()
        return False

    def read(self) -> bytes | int:
        """Returns the content now; call it only while `alive()`."""
        if self.size <= COPIED:
            return ctypes.string_at(self.address, self.size)
        if not self.sampled:
            return zlib.crc32((ctypes.c_char * self.size).from_address(self.address))
        stride, sum_ = self.size // SAMPLES, 0
        for start in range(self.address, self.address + self.size - SAMPLE_BYTES, stride):
            sum_ = zlib.crc32(ctypes.string_at(start, SAMPLE_BYTES), sum_)
        return sum_

    def look(self) -> tuple[int, int] | None:
        """Returns the bytes [start, stop) that changed since the last look (all of it where only a checksum is kept), or None."""
        now, before = self.read(), self.content
        if now == before or before is None:
            self.content = now
            return None
        self.content = now
        self.generation += 1
        if isinstance(now, int) or isinstance(before, int):
            return 0, self.size
        return changed_interval(before, now)


def changed_interval(before: bytes, now: bytes) -> tuple[int, int]:
    """Returns the smallest [start, stop) outside which the two are equal; they have one length and differ."""
    difference = int.from_bytes(before, "little") ^ int.from_bytes(now, "little")
    return ((difference & -difference).bit_length() - 1) // 8, (difference.bit_length() + 7) // 8


def fingerprint(tensor: torch.Tensor, memory: Memory | None = None) -> bytes | int:
    """Returns a tensor's own values in a form that two looks can be compared by: all bytes up to COPIED, else a checksum.

    Where it is all of `memory`, the bytes that are kept there already are used.
    """
    place = address_of(tensor)
    if place is None:
        return 0
    address, size = place
    own = int(tensor.numel()) * tensor.element_size()
    if tensor.is_contiguous():
        if memory and own == memory.size and memory.address == address and memory.content is not None:
            return memory.content
        start = address + int(tensor.storage_offset()) * tensor.element_size()
        return Memory(0, start, own).read()
    if own > 4 * size:  # expanded: the few values stand for all
        return Memory(0, address, size).read()
    return _in_parts(tensor.detach())


def _in_parts(tensor: torch.Tensor) -> bytes | int:
    """Returns the fingerprint of a tensor whose elements do not follow each other; of a large one no copy is made as a whole."""
    own = tensor.numel() * tensor.element_size()
    if own > COPIED and len(tensor) > 1:
        half = len(tensor) // 2
        return hash((_in_parts(tensor[:half]), _in_parts(tensor[half:])))
    dense = tensor.contiguous()
    return Memory(0, dense.data_ptr(), own).read()


def address_of(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Returns the address and size of a tensor's storage, or None where it has none that can be read (CUDA, sparse, functorch)."""
    try:
        # The first fake tensor of a process gives the address 0 with a warning, and only the next ones raise (PyTorch 2.13).
        if tensor.device.type != "cpu" or tensor.layout != torch.strided or not has_values(tensor):
            return None
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError):  # a fake, meta, nested or transformed tensor
        return None


def extent_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the bytes [start, stop) of its storage that a tensor spans."""
    start = int(tensor.storage_offset()) * tensor.element_size()
    if tensor.numel() == 0:
        return start, start
    last: int = sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


class Memories:
    """All storages of one run, by address."""

    def __init__(self):
        self.all: list[Memory] = []
        self.at: dict[int, Memory] = {}
        self.nowhere: Memory | None = None

    def of(self, tensor: torch.Tensor, *, foreign: bool = False) -> Memory:
        """Returns the storage that a tensor lives in; `foreign` says that its memory may start inside another's."""
        place = address_of(tensor)
        if place is None or place[1] == 0:
            self.nowhere = self.nowhere or self._new(0, 0)
            return self.nowhere
        address, size = place
        known = self.at.get(address)
        if known is None and foreign:
            known = next((m for m in self.at.values() if m.address < address < m.address + m.size and m.alive()), None)
            if known is not None:
                return known
        # An address is given again when the memory was freed: the same number is then another storage.
        if known is None or not known.alive():
            known = self._new(address, size)
        elif known.size < size:
            known.size, known.content = size, None  # resized in place
        known.witnesses.append(weakref.ref(tensor))
        return known

    def _new(self, address: int, size: int) -> Memory:
        memory = Memory(len(self.all), address, size)
        self.all.append(memory)
        if size:
            self.at[address] = memory
        return memory

    def covering(self, address: int) -> Memory | None:
        """Returns the living storage that a raw address points into."""
        known = self.at.get(address)
        if known is None:
            known = next((m for m in self.at.values() if m.address <= address < m.address + m.size), None)
        return known if known is not None and known.alive() else None

"""Memory that a rollout lends to the trainer between its calls, at an address that stays, so that CUDA graphs over it
stay valid."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from verlcli.engine.memory import count_mapped


class LentMemory:
    """`size` bytes on `device`. On a GPU they are held from `take` to `give_back`; what stood in them is then gone.

    The address is reserved with CUDA's virtual memory management (driver API, `cuMemAddressReserve`), and memory is
    mapped to it as needed. Without it (a CPU, or no `cuda-bindings`, which CUDA builds of torch bring along) the memory
    is a plain tensor and stays.
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self._mapping = _Mapping(size, device) if _can_map(device) else None
        self._plain = torch.empty(size, dtype=torch.uint8, device=device) if self._mapping is None else None

    def take(self) -> None:
        """Have the memory; nothing happens where it is held.

        Raises:
            torch.OutOfMemoryError: the GPU has too little left, also after torch's cache was emptied.
        """
        if self._mapping is not None:
            self._mapping.take()

    def give_back(self) -> None:
        """Let others have the memory, once all that was asked of the GPU is done."""
        if self._mapping is not None:
            self._mapping.give_back()

    @property
    def held(self) -> int:
        """Bytes of GPU memory that are held now."""
        if self._plain is not None:
            return self._plain.nbytes if self._plain.is_cuda else 0
        assert self._mapping is not None
        return self._mapping.held

    def split(self, shapes: list[tuple[int, ...]], dtype: torch.dtype) -> list[Tensor]:
        """Tensors of these shapes, one after another; to be used only while the memory is held.

        They keep it alive. `bytes_for` says how much they need.
        """
        whole: Tensor
        if self._plain is not None:
            whole = self._plain
        else:  # the mapping must be held for torch to find out which device it is on
            assert self._mapping is not None
            self.take()
            whole = torch.as_tensor(self._mapping, device=self._mapping.device)
        parts, at = [], 0
        for shape in shapes:
            size = torch.Size(shape).numel() * dtype.itemsize
            parts.append(whole[at : at + size].view(dtype).view(shape))
            at += _aligned(size)
        return parts


def bytes_for(shapes: list[tuple[int, ...]], dtype: torch.dtype) -> int:
    """What `LentMemory.split` needs for tensors of these shapes."""
    return sum(_aligned(torch.Size(shape).numel() * dtype.itemsize) for shape in shapes)


def _aligned(size: int) -> int:
    return -(-size // 512) * 512  # as torch's own allocator does


def _can_map(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip:
        return False
    try:
        from cuda.bindings import driver  # noqa: F401
    except ImportError:
        return False
    return True


class _Mapping:
    """A reserved range of addresses, with or without memory behind it."""

    def __init__(self, size: int, device: torch.device) -> None:
        from cuda.bindings import driver

        self.device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
        torch.cuda.synchronize(self.device)  # CUDA is initialised
        self._driver: Any = driver
        place = driver.CUmemLocation()
        place.type, place.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, self.device.index
        self._kind = driver.CUmemAllocationProp()
        self._kind.type, self._kind.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, place
        self._access = driver.CUmemAccessDesc()
        self._access.location = place
        self._access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        smallest = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        step = self._call("cuMemGetAllocationGranularity", self._kind, smallest)
        self._wanted, self._size = size, max(1, -(-size // step)) * step
        self._address = self._call("cuMemAddressReserve", self._size, 0, 0, 0)
        self._memory: list[Any] = []  # the handle, while memory is held
        weakref.finalize(self, _free, driver, self.device, self._address, self._size, self._memory).atexit = False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (int(self._address), False)
        return {"shape": (self._wanted,), "typestr": "|u1", "data": data, "version": 2}

    @property
    def held(self) -> int:
        return self._size if self._memory else 0

    def take(self) -> None:
        if self._memory:
            return
        error, handle = self._driver.cuMemCreate(self._size, self._kind, 0)
        if error == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            torch.cuda.empty_cache()  # torch keeps what it has freed
            error, handle = self._driver.cuMemCreate(self._size, self._kind, 0)
        if error == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, _ = torch.cuda.mem_get_info(self.device)
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {self._size / 2**30:.2f} GiB for generation, "
                f"{free / 2**30:.2f} GiB is free."
            )
        self._check("cuMemCreate", error)
        try:
            self._call("cuMemMap", self._address, self._size, 0, handle, 0)
            try:
                self._call("cuMemSetAccess", self._address, self._size, [self._access], 1)
            except RuntimeError:
                self._driver.cuMemUnmap(self._address, self._size)
                raise
        except RuntimeError:
            self._driver.cuMemRelease(handle)
            raise
        self._memory.append(handle)
        count_mapped(self._size)

    def give_back(self) -> None:
        if not self._memory:
            return
        torch.cuda.synchronize(self.device)
        self._call("cuMemUnmap", self._address, self._size)
        self._call("cuMemRelease", self._memory.pop())
        count_mapped(-self._size)

    def _call(self, name: str, *arguments: Any) -> Any:
        error, *results = getattr(self._driver, name)(*arguments)
        self._check(name, error)
        return results[0] if results else None

    def _check(self, name: str, error: Any) -> None:
        if error != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{name} of the CUDA driver failed: {error.name}")


def _free(driver: Any, device: torch.device, address: Any, size: int, memory: list[Any]) -> None:
    """Once nobody looks at the range any more; kernels that still read it are waited for."""
    try:
        torch.cuda.synchronize(device)
    finally:
        if memory:
            driver.cuMemUnmap(address, size)
            driver.cuMemRelease(memory.pop())
            count_mapped(-size)
        driver.cuMemAddressFree(address, size)

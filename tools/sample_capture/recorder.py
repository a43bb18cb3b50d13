"""Simulate a host and a GPU with CUDA's basic rules, and record them as nsys would.

A host thread is a clock. A call takes time on its thread. GPU work starts `LATENCY_NS` after the
return of its launch or `STREAM_GAP_NS` after the stream's previous work, whichever is later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nsys_schema import (
    ALLOCATE,
    COPY_HTOD,
    DEVICE,
    FREE,
    NVTX_DOMAIN,
    NVTX_PUSH_POP,
    PAGEABLE,
    PINNED,
    RUNTIME_CALL,
    SYNC_STREAM,
    CudaStream,
    Memcpy,
    MemoryUsage,
    Memset,
    NullStream,
    Nvtx,
    Runtime,
    Synchronization,
)
from nsys_schema import Kernel as KernelRow
from nsys_writer import NsysWriter
from sample_capture.model import Kernel

LATENCY_NS = 2_000
STREAM_GAP_NS = 1_000
RANGE_CALL_NS = 500
LAUNCH_NS = 6_000
COPY_CALL_NS = 8_000

PID, DEVICE_ID, CONTEXT = 4242, 0, 1
COMPUTE_STREAM, COPY_STREAM = 7, 14
DOMAIN, DOMAIN_ID = "tbd_trace", 1
_FIRST_ADDRESS, _ALLOCATION_UNIT = 0x7F00_0000_0000, 2 << 20


@dataclass
class Thread:
    """A host thread: its serialised global id and its clock in ns."""

    global_tid: int
    now: int = 0


class Recorder:
    """Execute host calls and GPU work, and write their trace rows."""

    def __init__(self, writer: NsysWriter) -> None:
        self._writer = writer
        self._process = writer.process(PID, "python")
        self._end_of_stream: dict[int, int] = {}
        self._correlation = 0
        self._kernels = 0
        self._addresses: dict[str, tuple[int, int]] = {}
        self._ranges: list[Nvtx] = []
        writer.add(NullStream(COMPUTE_STREAM, 0, 1, PID, DEVICE_ID, CONTEXT))
        for stream, flag in ((COMPUTE_STREAM, 3), (COPY_STREAM, 2)):
            writer.add(CudaStream(stream, 0, 1, PID, CONTEXT, 0, flag))

    def thread(self, tid: int, name: str) -> Thread:
        """Return a new host thread with its clock at 0."""
        return Thread(self._writer.thread(self._process, tid, name))

    def declare_domain(self, thread: Thread) -> None:
        """Record the creation of the NVTX domain."""
        self._writer.add(
            Nvtx(
                thread.now,
                None,
                NVTX_DOMAIN,
                text=DOMAIN,
                globalTid=thread.global_tid,
                domainId=DOMAIN_ID,
            )
        )

    @contextmanager
    def range(self, thread: Thread, text: str, *, registered: bool = True) -> Iterator[None]:
        """Enclose host work in an NVTX range; ``registered`` texts are in ``StringIds``."""
        start = thread.now
        thread.now += RANGE_CALL_NS
        yield
        self._ranges.append(
            Nvtx(
                start,
                thread.now,
                NVTX_PUSH_POP,
                text=None if registered else text,
                globalTid=thread.global_tid,
                textId=self._writer.string(text) if registered else None,
                domainId=DOMAIN_ID,
            )
        )
        thread.now += RANGE_CALL_NS

    def flush_ranges(self) -> None:
        """Write the closed ranges ordered by start, as in an export."""
        self._ranges.sort(key=lambda row: row.start)
        for row in self._ranges:
            self._writer.add(row)
        self._ranges.clear()

    def call(
        self, thread: Thread, name: str, duration_ns: int, event_class: int = RUNTIME_CALL
    ) -> int:
        """Make an API call and return its correlation id."""
        start = thread.now
        thread.now += duration_ns
        self._correlation += 1
        self._writer.add(
            Runtime(
                start,
                thread.now,
                event_class,
                thread.global_tid,
                self._correlation,
                self._writer.string(name),
            )
        )
        return self._correlation

    def launch(self, thread: Thread, kernel: Kernel, duration_ns: int) -> None:
        """Launch a kernel on the compute stream."""
        correlation = self.call(thread, "cudaLaunchKernel_v7000", LAUNCH_NS)
        where = self._occupy(COMPUTE_STREAM, thread.now, duration_ns)
        name = self._writer.string(kernel.name)
        short_name = self._writer.string(kernel.short_name)
        static, dynamic = kernel.shared
        self._kernels += 1
        self._writer.add(
            KernelRow(
                *where,
                correlationId=correlation,
                globalPid=self._process,
                demangledName=name,
                shortName=short_name,
                # extern "C" names are not mangled; mangled C++ template names are left out
                mangledName=name if name == short_name else None,
                launchType=1,
                cacheConfig=0,
                registersPerThread=kernel.registers,
                gridX=kernel.grid[0],
                gridY=kernel.grid[1],
                gridZ=1,
                blockX=kernel.threads,
                blockY=1,
                blockZ=1,
                staticSharedMemory=static,
                dynamicSharedMemory=dynamic,
                localMemoryPerThread=0,
                localMemoryTotal=0,
                gridId=self._kernels,
                sharedMemoryExecuted=kernel.carve_out,
                graphNodeId=None,
                sharedMemoryLimitConfig=int(sum(kernel.shared) > 49_152),
            )
        )

    def fill(self, thread: Thread, size: int, duration_ns: int) -> None:
        """Fill device memory with zeros on the compute stream."""
        correlation = self.call(thread, "cudaMemsetAsync_v3020", LAUNCH_NS)
        where = self._occupy(COMPUTE_STREAM, thread.now, duration_ns)
        self._writer.add(Memset(*where, correlation, self._process, 0, size, None, DEVICE))

    def copy(self, thread: Thread, kind: int, size: int, duration_ns: int, stream: int) -> None:
        """Copy asynchronously: to the device from pinned memory, or from it to pageable memory."""
        correlation = self.call(thread, "cudaMemcpyAsync_v3020", COPY_CALL_NS)
        where = self._occupy(stream, thread.now, duration_ns)
        kinds = (PINNED, DEVICE) if kind == COPY_HTOD else (DEVICE, PAGEABLE)
        self._writer.add(Memcpy(*where, correlation, self._process, size, kind, None, *kinds))

    def copy_blocking(self, thread: Thread, size: int, duration_ns: int, tail_ns: int) -> None:
        """Copy pageable host memory to the device; return ``tail_ns`` after the copy's end."""
        where = self._occupy(COMPUTE_STREAM, thread.now, duration_ns)
        correlation = self.call(thread, "cudaMemcpy_v3020", where[1] + tail_ns - thread.now)
        kinds = (PAGEABLE, DEVICE)
        self._writer.add(Memcpy(*where, correlation, self._process, size, COPY_HTOD, None, *kinds))

    def synchronize(self, thread: Thread, tail_ns: int) -> None:
        """Wait for the compute stream; return ``tail_ns`` after its last work."""
        start, end = thread.now, self._end_of_stream[COMPUTE_STREAM]
        correlation = self.call(thread, "cudaStreamSynchronize_v3020", end + tail_ns - start)
        stream = (DEVICE_ID, CONTEXT, COMPUTE_STREAM)
        self._writer.add(
            Synchronization(start, end, *stream, correlation, self._process, SYNC_STREAM)
        )

    def allocate(self, thread: Thread, label: str, size: int, duration_ns: int) -> None:
        """Allocate device memory; a freed label gets its address back."""
        correlation = self.call(thread, "cudaMalloc_v3020", duration_ns)
        if label not in self._addresses:
            used = sum(-(-known // _ALLOCATION_UNIT) for _, known in self._addresses.values())
            self._addresses[label] = (_FIRST_ADDRESS + used * _ALLOCATION_UNIT, size)
        self._memory_event(thread.now, label, ALLOCATE, correlation)

    def free(self, thread: Thread, label: str, tail_ns: int) -> None:
        """Free device memory: ``cudaFree`` first waits for the compute stream."""
        end = max(thread.now, self._end_of_stream[COMPUTE_STREAM]) + tail_ns
        correlation = self.call(thread, "cudaFree_v3020", end - thread.now)
        self._memory_event(thread.now, label, FREE, correlation)

    def _memory_event(self, time: int, label: str, operation: int, correlation: int) -> None:
        address, size = self._addresses[label]
        self._writer.add(
            MemoryUsage(
                time,
                self._process,
                DEVICE_ID,
                CONTEXT,
                address,
                0,
                size,
                DEVICE,
                operation,
                correlationId=correlation,
            )
        )

    def _occupy(self, stream: int, ready: int, duration: int) -> tuple[int, int, int, int, int]:
        # Returns start, end, device, context and stream.
        start = ready + LATENCY_NS
        if stream in self._end_of_stream:
            start = max(start, self._end_of_stream[stream] + STREAM_GAP_NS)
        end = self._end_of_stream[stream] = start + duration
        return start, end, DEVICE_ID, CONTEXT, stream

"""Exchange gradients through a parameter server that is shared among the ranks.

Each rank serves a part of every gradient: it adds up what the others push and lets them pull the
mean. The next forward pass of a layer waits for the layer's own gradients only. ``ps`` sends whole
gradients in the order in which they become ready; ``p3`` sends slices, those of earlier layers
first, as the next iteration needs them first (Jayarajan et al., MLSys 2019).
"""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tbd_models.definition import UnsupportedError
from tbd_models.instrument.marks import Marks, NoMarks, marked

SLICE_BYTES = 160_000  # of P3: 40,000 parameters
_HEADER = struct.Struct("!?I")  # pulled rather than pushed, number of the part
_SEND_BUFFER = 256 * 2**10  # slices in it cannot be overtaken
_CLOSE = (2**62, 0, -1, False, 0)


@dataclass(slots=True)
class _Part:
    # A slice of a gradient, and the rank that adds it up.
    parameter: int
    begin: int  # elements
    end: int
    server: int
    total: np.ndarray[Any, Any]
    pushed: int = 0  # ranks whose slice is in the total


class ParameterServer:
    """Averages the gradients of a model over the ranks, and updates its parameters by layer.

    Raises UnsupportedError for parameters that are not float32 on the CPU.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        *,
        by_priority: bool,
    ) -> None:
        self.marks: Marks = NoMarks()
        self.is_paused = False  # True for passes whose gradients stay on this rank
        self._rank, self._ranks = dist.get_rank(), dist.get_world_size()
        self._by_priority = by_priority
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._parameters = [parameter for _, parameter in named]
        # The layer of each parameter, as layer_names names it.
        self._layers = [name.rpartition(".")[0] or type(model).__name__ for name, _ in named]
        if any(p.dtype is not torch.float32 or p.is_cuda for p in self._parameters):
            raise UnsupportedError("the parameter server takes float32 on a CPU; use --scheme ddp")
        self._optimizers = [optimizer([p]) for p in self._parameters]
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.data, 0)
        self._parts: list[_Part] = []
        self._parts_of: list[list[int]] = []
        for number, parameter in enumerate(self._parameters):
            self._divide(number, parameter.numel())
            parameter.register_post_accumulate_grad_hook(self._ready(number))
        self._missing = [0] * len(self._parameters)  # parts that are not back yet
        self._changed = threading.Condition()
        self._numbers = {id(p): number for number, p in enumerate(self._parameters)}
        self._called: set[int] = set()  # parameters whose module has a forward pass
        model.register_forward_pre_hook(self._begin, prepend=True)
        for module in model.modules():
            own = [self._numbers[id(p)] for p in module.parameters(False) if p.requires_grad]
            if own:
                module.register_forward_pre_hook(self._wait_for(own))
        self._order = count()
        self._outgoing: queue.PriorityQueue[tuple[int, int, int, bool, int]] = queue.PriorityQueue()
        self._peers = self._connect()
        self._error: Exception | None = None
        threads = [self._send, *(self._receiver(peer) for peer in self._peers)]
        for work in threads:
            threading.Thread(target=self._guarded, args=(work,), daemon=True).start()

    def close(self) -> None:
        """Wait for the last gradients and end the connections."""
        self._finish(range(len(self._parameters)))
        dist.barrier()
        self._outgoing.put(_CLOSE)
        for peer in self._peers.values():
            peer.close()

    def _divide(self, number: int, elements: int) -> None:
        size = SLICE_BYTES // 4 if self._by_priority else max(1, -(-elements // self._ranks))
        self._parts_of.append([])
        for begin in range(0, elements, size):
            end = min(begin + size, elements)
            server = len(self._parts) % self._ranks
            self._parts_of[number].append(len(self._parts))
            total = np.zeros(end - begin if server == self._rank else 0, np.float32)
            self._parts.append(_Part(number, begin, end, server, total))

    def _connect(self) -> dict[int, socket.socket]:
        # The address by which rank 0 is reached is that of the chosen interface.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((os.environ["MASTER_ADDR"], 9))
            own = probe.getsockname()[0]
        peers = {}
        with socket.create_server((own, 0), backlog=self._ranks) as listening:
            places: list[Any] = [None] * self._ranks
            dist.all_gather_object(places, listening.getsockname())
            for rank in range(self._rank + 1, self._ranks):
                peers[rank] = socket.create_connection(places[rank], timeout=60)
                peers[rank].sendall(_HEADER.pack(False, self._rank))
            for _ in range(self._rank):
                connection, _ = listening.accept()
                _, rank = _HEADER.unpack(_received(connection, _HEADER.size))
                peers[rank] = connection
        for connection in peers.values():
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        return peers

    # On the threads of the training.

    def _ready(self, number: int) -> Callable[[Tensor], None]:
        def push(_parameter: Tensor) -> None:
            if self.is_paused:
                return
            with self._changed:
                self._missing[number] += len(self._parts_of[number])
            for part in self._parts_of[number]:
                server = self._parts[part].server
                if server == self._rank:
                    self._add(part, self._slice(part))
                else:
                    self._enqueue(part, server, pulled=False)

        return push

    def _wait_for(self, numbers: list[int]) -> Callable[..., None]:
        def wait(_module: nn.Module, _inputs: Any) -> None:
            self._called.update(numbers)
            self._finish(numbers)

        return wait

    def _begin(self, _module: nn.Module, _inputs: Any) -> None:
        # Some modules use parameters of others without calling them.
        self._finish(n for n in range(len(self._parameters)) if n not in self._called)

    def _finish(self, numbers: Iterable[int]) -> None:
        if self.is_paused:
            return
        for number in numbers:
            with self._changed:
                while self._missing[number] and self._error is None:
                    self._changed.wait()
            if self._error is not None:
                raise self._error
            if self._parameters[number].grad is not None:
                self._optimizers[number].step()
                self._optimizers[number].zero_grad(set_to_none=True)

    # On the threads of the connections.

    def _send(self) -> None:
        while (message := self._outgoing.get()) != _CLOSE:
            _, _, part, pulled, rank = message
            content = self._slice(part)
            word = "pull" if pulled else "push"
            layer = self._layers[self._parts[part].parameter]
            text = f"{word}, bytes = {content.nbytes}, layer = {layer}"
            with marked(self.marks, text):
                self._peers[rank].sendall(_HEADER.pack(pulled, part))
                self._peers[rank].sendall(content.data)
            if pulled:
                self._arrived(part, 1)

    def _receiver(self, rank: int) -> Callable[[], None]:
        def receive() -> None:
            connection = self._peers[rank]
            while header := _received(connection, _HEADER.size):
                pulled, part = _HEADER.unpack(header)
                size = self._parts[part].end - self._parts[part].begin
                content = np.frombuffer(_received(connection, 4 * size), np.float32)
                if pulled:
                    self._slice(part)[:] = content
                    self._arrived(part, 1)
                else:
                    self._add(part, content)

        return receive

    def _add(self, number: int, content: np.ndarray[Any, Any]) -> None:
        part = self._parts[number]
        with self._changed:
            part.total += content
            part.pushed += 1
            if part.pushed < self._ranks:
                return
            # All ranks have pushed, this one included, so its gradient is there.
            self._slice(number)[:] = part.total / self._ranks
            part.total[:] = 0
            part.pushed = 0
            # The gradient must stay until it is sent to all others.
            self._missing[part.parameter] += len(self._peers) - 1
        for rank in self._peers:
            self._enqueue(number, rank, pulled=True)

    def _slice(self, number: int) -> np.ndarray[Any, Any]:
        part = self._parts[number]
        gradient = self._parameters[part.parameter].grad
        assert gradient is not None
        flat: np.ndarray[Any, Any] = gradient.view(-1).numpy()[part.begin : part.end]
        return flat

    def _enqueue(self, part: int, rank: int, *, pulled: bool) -> None:
        priority = self._parts[part].parameter if self._by_priority else 0
        self._outgoing.put((priority, next(self._order), part, pulled, rank))

    def _arrived(self, number: int, count_of: int) -> None:
        with self._changed:
            self._missing[self._parts[number].parameter] -= count_of
            self._changed.notify_all()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # raised again in the training
            with self._changed:
                self._error = error
                self._changed.notify_all()


def _received(connection: socket.socket, size: int) -> bytearray:
    # Empty when the other side has closed the connection.
    content = bytearray(size)
    view = memoryview(content)
    while view:
        got = connection.recv_into(view)
        if not got:
            return bytearray()
        view = view[got:]
    return content

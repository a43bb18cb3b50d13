"""Share MXNet's key-value store ``dist_sync`` among the ranks of a job.

Each rank is a worker and starts a server beside itself, and rank 0 also the scheduler. A rank
pushes each gradient to the servers, which update the weights with the sum over the ranks, and pulls
the weights.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from tbd_models.definition import UnsupportedError
from tbd_models.instrument.marks import Marks, marked
from tbd_models.settings import Settings

_END_S = 30  # for the servers to end after the workers
_servers: list[subprocess.Popen[bytes]] = []


def world_size(settings: Settings) -> int:
    """Return the number of ranks as torchrun sets it, 1 without it or with another scheme."""
    return int(os.environ.get("WORLD_SIZE", "1")) if settings.scheme == "dist_sync" else 1


def rank(settings: Settings) -> int:
    """Return this process's rank as torchrun sets it, 0 for one alone."""
    return int(os.environ["RANK"]) if world_size(settings) > 1 else 0


def join(settings: Settings) -> None:
    """Start this rank's servers and make it a worker, before MXNet is imported."""
    ranks = str(world_size(settings))
    shared = {
        "DMLC_PS_ROOT_URI": os.environ["MASTER_ADDR"],
        "DMLC_PS_ROOT_PORT": os.environ["MASTER_PORT"],
        "DMLC_NUM_WORKER": ranks,
        "DMLC_NUM_SERVER": ranks,
    }
    if interface := os.environ.get("GLOO_SOCKET_IFNAME"):
        shared["DMLC_INTERFACE"] = interface
    os.environ.update(shared)
    inherited = {name: v for name, v in os.environ.items() if name != "MXNET_ENGINE_TYPE"}
    atexit.register(_stop)
    for role in ("scheduler", "server") if rank(settings) == 0 else ("server",):
        argv = [sys.executable, "-m", "tbd_models.mxnet.server"]
        _servers.append(subprocess.Popen(argv, env=inherited | {"DMLC_ROLE": role}))
    os.environ["DMLC_ROLE"] = "worker"


def _stop() -> None:
    for server in _servers:
        server.kill()
        server.wait()


class SharedStore:
    """The store of this rank; raises UnsupportedError if MXNet was built without it."""

    def __init__(self) -> None:
        import mxnet as mx  # noqa: PLC0415 - after join()
        from mxnet import base  # noqa: PLC0415

        self._base: Any = base
        if not mx.runtime.Features().is_enabled("DIST_KVSTORE"):
            raise UnsupportedError(
                "this MXNet was built without DIST_KVSTORE, which --scheme dist_sync needs"
            )
        self.store: Any = mx.kv.create("dist_sync")
        self._wait_at_exit(False)  # a rank that fails must not wait for the others

    def _wait_at_exit(self, is_wanted: bool) -> None:
        library = self._base._LIB
        done = library.MXKVStoreSetBarrierBeforeExit(self.store.handle, int(is_wanted))
        self._base.check_call(done)

    def wait_for_all(self) -> None:
        """Wait until all ranks are here."""
        self.store._barrier()

    def mark(self, names: Mapping[int, str], marks: Marks) -> None:
        """Enclose the push and the pull of each gradient in a range.

        ``names`` are the layers of the parameters by their keys.
        """
        store = self.store

        def push_and_pull(key: int, value: Any, out: Any, priority: int = 0) -> None:
            size = sum(array.size * array.dtype().itemsize for array in value)
            text = f"bytes = {size}, layer = {names[key]}"
            with marked(marks, f"push, {text}"):
                store.push(key, value, priority=priority)
            with marked(marks, f"pull, {text}"):
                store.pull(key, out, priority=priority)

        store.pushpull = push_and_pull

    def close(self) -> None:
        """Leave the store, and wait for the servers of this rank."""
        self._wait_at_exit(True)  # ends the servers, too
        # MXNet leaves the store when nothing refers to it, but parameters refer to their trainer.
        self._base.check_call(self._base._LIB.MXKVStoreFree(self.store.handle))
        self.store.handle = None
        for server in _servers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(_END_S)

"""Run the captures of all ranks of a job at the same time, as torchrun would start them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from tbd_collectors.network_namespaces import INTERFACE, Namespaces
from tbd_models.instrument.marks import EVERY_RANK_VARIABLE

_T = TypeVar("_T")
# What ranks print when another one has gone.
_OTHER_RANK = re.compile(
    r"(?i)closed by peer|reset by peer|broken pipe|remote process exited|collective ops is aborted"
)
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
_TOGETHER_S = 1.5  # failures of one cause follow each other within this time
_POLL_S = 0.2  # a wait without a limit would delay Ctrl-C


@dataclass(frozen=True, slots=True)
class Launch:
    """How one rank is started."""

    rank: int
    world_size: int
    addresses: Sequence[str]  # of the ranks
    ports: Sequence[Sequence[int]]  # of the ranks, others for each run, so that runs cannot meet
    interface: str  # network interface between the ranks
    threads: int  # of the host for each rank
    prefix: Sequence[str] = ()  # words before the command
    stop: threading.Event = field(default_factory=threading.Event)  # set when another rank fails
    recorded: set[int] = field(default_factory=set)  # ranks of which enough is recorded

    def all_are_recorded(self) -> bool:
        """Note that enough of this rank is recorded; return True if that is so of all ranks."""
        self.recorded.add(self.rank)
        return len(self.recorded) == self.world_size

    def environment(self, run: int) -> dict[str, str]:
        """Return the variables of torchrun and TF_CONFIG for the run of a number, from 0."""
        rank, world = str(self.rank), str(self.world_size)
        return {
            **{name: str(self.threads) for name in _THREADS if name not in os.environ},
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": world,
            "GROUP_RANK": "0",
            EVERY_RANK_VARIABLE: "1",
            "MASTER_ADDR": self.addresses[0],
            "MASTER_PORT": str(self.ports[run][0]),
            "TF_CONFIG": self._tensorflow(run),
            **self.interfaces(),
        }

    def _tensorflow(self, run: int) -> str:
        workers = [
            f"{address}:{port}"
            for address, port in zip(self.addresses, self.ports[run], strict=True)
        ]
        task = {"type": "worker", "index": self.rank}
        return json.dumps({"cluster": {"worker": workers}, "task": task})

    def interfaces(self) -> Mapping[str, str]:
        """Return the variables that name the interface, unless the user has chosen one."""
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
        if self.prefix:
            return dict.fromkeys(names, self.interface)
        return {name: self.interface for name in names if name not in os.environ}


def launches(
    ranks: int, runs: int, within: Namespaces | None = None, *, share: int | None = None
) -> list[Launch]:
    """Return the launches of the ranks of a job.

    Args:
        ranks: number of ranks.
        runs: runs one after another.
        within: namespaces of the ranks, None for the machine's own network.
        share: ranks among which the cores are divided (default: ``ranks``).
    """
    stop = threading.Event()
    recorded: set[int] = set()
    threads = max(1, (os.cpu_count() or 1) // (share or ranks))
    addresses = [within.address(rank) if within else "127.0.0.1" for rank in range(ranks)]
    free = _free_ports(runs * ranks)
    ports = [free[run * ranks : (run + 1) * ranks] for run in range(runs)]
    return [
        Launch(
            rank,
            ranks,
            addresses,
            ports,
            INTERFACE if within else "lo",
            threads,
            within.prefix(rank) if within else (),
            stop,
            recorded,
        )
        for rank in range(ranks)
    ]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[_T]):
    """The results of ranks that ran at the same time, and which of them failed first."""

    results: list[_T]
    failed: int | None  # rank, None if all succeeded


def together(
    ranks: Sequence[Launch], run_rank: Callable[[Launch], _T], failed: Callable[[_T], bool],
    output: Callable[[Launch], Path],
) -> Outcome[_T]:  # fmt: skip
    """Run all ranks at the same time; when one fails, stop the others.

    ``output`` names a rank's log. An interrupt stops them too and is raised after their end.
    """
    ended: dict[int, float] = {}

    def timed(launch: Launch) -> _T:
        result = run_rank(launch)
        if failed(result):
            ended[launch.rank] = time.monotonic()
        return result

    with ThreadPoolExecutor(len(ranks)) as pool:
        futures = [pool.submit(timed, launch) for launch in ranks]
        try:
            _wait(futures, ended, ranks[0].stop)
        except BaseException:
            ranks[0].stop.set()
            raise
        results = [future.result() for future in futures]
    return Outcome(results, _first(ended, lambda rank: output(ranks[rank])))


def _wait(futures: Sequence[Future[_T]], ended: Mapping[int, float], stop: threading.Event) -> None:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        if any(future.exception() for future in done):
            stop.set()
        # Others that fail of the same cause do so by themselves, and then say why.
        if ended and time.monotonic() - min(ended.values()) > _TOGETHER_S:
            stop.set()


def _first(ended: Mapping[int, float], output: Callable[[int], Path]) -> int | None:
    if not ended:
        return None
    first = min(ended.values())
    together_with = sorted((at, rank) for rank, at in ended.items() if at - first <= _TOGETHER_S)
    own = [rank for _, rank in together_with if not _names_another(output(rank))]
    return own[0] if own else together_with[0][1]


def _names_another(log: Path) -> bool:
    try:
        return _OTHER_RANK.search(log.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False

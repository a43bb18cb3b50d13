"""Give each rank a network namespace with a link of a chosen rate and latency (Linux, as root).

Every rank has a veth pair to a bridge. The bridge is in a namespace too, so that removing the
namespaces removes all interfaces, and none appears on the machine's own network.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.process import CollectionError
from tbd_trace.errors import UsageError

PREFIX = "tbdtrace-"
INTERFACE = "eth0"  # of each rank, in its namespace
_HUB = "hub"
_OWN = re.compile(rf"{PREFIX}(\d+)-(?:{_HUB}|\d+)")
_UNITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(k|m|g)?bit", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|ms|us)", re.IGNORECASE)
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_SMALLEST_BURST = 64 * 2**10
_QUEUE_BYTES = 8 * 10**6
_QUEUE_PACKETS = 100_000  # netem's default of 1,000 would drop packets
_TIMEOUT_S = 20
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Link:
    """The link of each rank."""

    bits_per_s: float | None = None  # None for as fast as the host
    latency_s: float = 0.0  # added one way

    @property
    def title(self) -> str:
        """The rate as written on the command line, such as 0.3gbit."""
        return "unlimited" if self.bits_per_s is None else f"{self.bits_per_s / 1e9:g}gbit"


def rates(text: str) -> list[float]:
    """Parse rates such as ``0.3gbit,1gbit`` in bit/s; raise UsageError for others."""
    values = []
    for part in text.split(","):
        match = _RATE.fullmatch(part.strip())
        value = float(match[1]) * _UNITS[f"{(match[2] or '').lower()}bit"] if match else 0.0
        if value < 1e5:
            raise UsageError(
                f"--bandwidth {text!r}: write rates of at least 100kbit, such as 0.3gbit,1gbit"
            )
        values.append(value)
    if len(set(values)) < len(values):
        raise UsageError(f"--bandwidth {text!r}: a rate stands twice; remove one")
    return values


def seconds(text: str) -> float:
    """Parse a latency such as ``1ms``; raise UsageError for another text."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--latency {text!r}: write a time such as 1ms or 200us")
    return float(match[1]) * _SECONDS[match[2].lower()]


class Namespaces:
    """The namespaces of a number of ranks."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks

    def name(self, rank: int | str) -> str:
        """Return the namespace of a rank."""
        return f"{PREFIX}{os.getpid()}-{rank}"

    def address(self, rank: int) -> str:
        """Return the IPv4 address of a rank."""
        return f"10.213.{(rank + 1) // 256}.{(rank + 1) % 256}"

    def prefix(self, rank: int) -> list[str]:
        """Return the words before a command that run it in the namespace of a rank."""
        return ["ip", "netns", "exec", self.name(rank)]

    def shape(self, link: Link) -> None:
        """Set rate and latency of every rank's outgoing traffic."""
        for rank in range(self._ranks):
            tc = ["tc", "-n", self.name(rank), "qdisc"]
            _run([*tc, "del", "dev", INTERFACE, "root"], may_fail=True)
            parent = ["root"]
            if link.bits_per_s is not None:
                burst = max(_SMALLEST_BURST, round(link.bits_per_s / 8 / 500))
                _run([
                    *tc, "add", "dev", INTERFACE, "root", "handle", "1:", "tbf",
                    "rate", f"{round(link.bits_per_s)}bit", "burst", str(burst),
                    "limit", str(_QUEUE_BYTES),
                ])  # fmt: skip
                parent = ["parent", "1:1"]
            if link.latency_s:
                delay = ["netem", "delay", f"{round(link.latency_s * 1e6)}us"]
                try:
                    _run([*tc, "add", "dev", INTERFACE, *parent, *delay,
                          "limit", str(_QUEUE_PACKETS)])  # fmt: skip
                except CollectionError as error:
                    raise CollectionError(
                        f"--latency: {error}; load the kernel module sch_netem, or leave it out"
                    ) from error

    def make(self) -> None:
        """Make the namespaces and their links."""
        hub = self.name(_HUB)
        _run(["ip", "netns", "add", hub])
        _run(["ip", "-n", hub, "link", "add", "bridge", "type", "bridge"])
        _run(["ip", "-n", hub, "link", "set", "bridge", "up"])
        for rank in range(self._ranks):
            own, port = self.name(rank), f"rank{rank}"
            _run(["ip", "netns", "add", own])
            _run(["ip", "-n", own, "link", "set", "lo", "up"])
            _run(["ip", "-n", own, "link", "add", INTERFACE, "type", "veth",
                  "peer", "name", port, "netns", hub])  # fmt: skip
            _run(["ip", "-n", hub, "link", "set", port, "master", "bridge", "up"])
            _run(["ip", "-n", own, "address", "add", f"{self.address(rank)}/16", "dev", INTERFACE])
            _run(["ip", "-n", own, "link", "set", INTERFACE, "up"])

    def remove(self) -> None:
        """Remove the namespaces, and with them their links."""
        _remove([self.name(rank) for rank in (*range(self._ranks), _HUB)])


@contextmanager
def namespaces(ranks: int) -> Iterator[Namespaces]:
    """Yield namespaces that are removed at the end, also after an error or an interrupt.

    Raises:
        CollectionError: the machine does not allow them.
    """
    remove_abandoned()
    made = Namespaces(ranks)
    try:
        made.make()
        yield made
    finally:
        # A second Ctrl-C must not leave half of them.
        former = {number: signal.signal(number, signal.SIG_IGN) for number in _INTERRUPTS}
        try:
            made.remove()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def remove_abandoned() -> list[str]:
    """Remove the namespaces of runs that were killed, with their processes; return their names."""
    left = [name for name in _existing() if not Path(f"/proc/{_owner(name)}").exists()]
    for name in left:
        listed = _run(["ip", "netns", "pids", name], may_fail=True)
        for process_id in listed.split():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(process_id), signal.SIGKILL)
    _remove(left)
    return left


def _existing() -> list[str]:
    listed = _run(["ip", "netns", "list"], may_fail=True)
    names = (line.split()[0] for line in listed.splitlines() if line.strip())
    return [name for name in names if _OWN.fullmatch(name)]


def _owner(name: str) -> str:
    match = _OWN.fullmatch(name)
    assert match is not None
    return match[1]


def _remove(names: Sequence[str]) -> None:
    for name in names:
        _run(["ip", "netns", "delete", name], may_fail=True)


def enter_user_namespace() -> None:
    """Replace this process by itself as root of a user namespace, unless it is root.

    Raises:
        UsageError: the machine allows neither.
    """
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        raise UsageError(f"--bandwidth needs {' and '.join(missing)}; install iproute2")
    if os.geteuid() == 0:
        return
    # The machine's /run/netns is not ours to write to.
    shell = 'mount -t tmpfs tmpfs /run && exec "$@"'
    words = ["unshare", "--map-root-user", "--net", "--mount", "sh", "-c", shell, "sh"]
    tried = subprocess.run(
        [*words, "ip", "netns", "add", f"{PREFIX}probe"],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        raise UsageError(
            "--bandwidth needs root, and user namespaces are not allowed here "
            f"({_last_line(tried.stderr)}); run as root, or leave it out"
        )
    os.execvp(words[0], [*words, sys.executable, "-m", "tbd_trace", *sys.argv[1:]])


def _run(argv: Sequence[str], *, may_fail: bool = False) -> str:
    done = subprocess.run(
        list(argv), capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode and not may_fail:
        raise CollectionError(
            f"network namespaces: `{' '.join(argv)}` failed ({_last_line(done.stderr)})"
        )
    return done.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1].removeprefix("Error: ").rstrip(".")

"""The names of people and machines: where they are found, and what stands for them."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

SEPARATOR = r"[\\/]+"
"""Between the parts of a path, as written on any system or escaped in a text."""
PART = r"[\w.@%+-]+"
"""One part of a path."""

_DISKS = (
    r"afs|beegfs|cephfs|cluster|data|export|global|gpfs|lustre|mnt|nas|net|nfs|pscratch|scratch"
    r"|shared|storage|usr|vol|work"
)
# Home directories, also where people are sorted by their first letter: /global/homes/j/jane. Nodes
# of graphs are called /home/Gemm, not people.
HOME = re.compile(
    rf"(?<![\w.])(?:[A-Za-z]:)?(?:{SEPARATOR}(?:{_DISKS})\d*(?:{SEPARATOR}{PART})?)?{SEPARATOR}"
    rf"(?:(?:home|homes|localhome){SEPARATOR}(?:([a-z]){SEPARATOR}(?=\1))?(?![A-Z])"
    rf"|Users{SEPARATOR})(?P<user>{PART})"
    r"|(?<![\w.])/root(?![\w.-])|(?<![\w.~])~(?P<tilde>[A-Za-z_][\w.-]*)?(?=/)"
)
"""A home directory: of ``user``, of ``tilde``, or of root or whoever it is."""
# The same for disks beside the homes: /pscratch/sd/j/jane.
_BY_LETTER = re.compile(rf"/(?:{_DISKS}|users)\d*(?:/{PART})?/([a-z])/(\1[\w-]+)")
USER_VARIABLE = re.compile(r"(?<![A-Za-z0-9])(USER|LOGNAME|USERNAME)=([\w.-]+)")
HOST_VARIABLE = re.compile(r"(?<![A-Za-z0-9])(HOST|HOSTNAME)=([\w.-]+)")
_CACHE = re.compile(r"torchinductor_([\w.-]+)(?=/|$)")
_TOP = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|app|cloud|info|local|lan|internal|intranet|corp|cluster"
    "|ac|at|au|be|br|ca|ch|cn|de|dk|es|eu|fi|fr|hk|ie|il|in|it|jp|kr|nl|no|nz|pl|pt|ru|se|sg|tw|uk"
    "|us|za"
)
MAIL = re.compile(rf"(?<![\w.@+-])([\w.+-]+)@((?:[\w-]+\.)+(?:{_TOP}))(?![\w-])")
"""A mail address, or an account on a machine with a full name."""

URL = re.compile(r"(?<=://)(?:[^\s/@\"'<>]*@)?([A-Za-z0-9_][\w.-]*)")
"""The host of an address."""

SHORTEST = 5
"""Shorter names are replaced in paths and addresses alone: they are in too many words."""
_ORDINARY = re.compile(
    r"root|users?|home|ubuntu|debian|centos|fedora|admin|administrator|guest|public|shared|default"
    r"|local|localhost|localdomain|runner|docker|jovyan|vagrant|nobody|workers?|master|server|client"
    r"|nodes?|compute|login|train|training|trainer|models?|data|datasets?|batch|layers?|linear"
    r"|module|tensor|torch|pytorch|tensorflow|mxnet|python|julia|nvidia|cuda|kernels?|forward"
    r"|backward|optimizer|attention|decoder|encoder|embedding|loader|network|profile|profiler"
    r"|projects?|workspace|students?|research|cluster|desktop|laptop|workstation|machine|unknown"
    r"|modal|colab|kaggle|ec2-user|azureuser|sagemaker-user",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"(?:user|host|gpu)\d+")
_NO_HOST = re.compile(r"localhost|0\.0\.0\.0|127\.[\d.]+|::1")


class Identities:
    """Users and hosts that are known, and the names that stand for them.

    The names are numbered as they are first replaced, and stay the same from then on.
    """

    def __init__(self) -> None:
        self.users: set[str] = set()
        self.hosts: set[str] = set()
        self._homes: dict[str, None] = {}
        self._own_home: str | None = None
        self._numbers: dict[str, dict[str, str]] = {"user": {}, "host": {}, "gpu": {}}
        self._words: re.Pattern[str] | None = None

    def learn_machine(self) -> None:
        """Learn the user, the home and the name of this machine."""
        host = socket.gethostname()
        self.learn_host(host)
        self.learn_host(host.partition(".")[0])
        home = Path.home()
        if len(home.parts) > 1:
            self._own_home = str(home)
            self.learn_user(home.name)
        try:
            self.learn_user(getpass.getuser())
        except (KeyError, OSError):  # a user without a name
            return

    def learn(self, text: str) -> None:
        """Learn the names that a text shows by where they stand."""
        for home in HOME.finditer(text):
            self.learn_user(home["user"] or home["tilde"])
        for pattern in (_BY_LETTER, USER_VARIABLE):
            for _, name in pattern.findall(text):
                self.learn_user(name)
        for name in _CACHE.findall(text):
            self.learn_user(name)
        for _, name in HOST_VARIABLE.findall(text):
            self.learn_host(name)
        for name in URL.findall(text):
            self.learn_host(name)

    def learn_user(self, name: str | None) -> None:
        """Learn a user's name."""
        if name and not _PLACEHOLDER.fullmatch(name) and name not in (".", "..", "root"):
            self.users.add(name)
            self._words = None

    def learn_host(self, name: str | None) -> None:
        """Learn a host's name."""
        if name and not _PLACEHOLDER.fullmatch(name) and not is_loopback(name):
            self.hosts.add(name)
            self._words = None

    @property
    def words(self) -> list[str]:
        """Names to be replaced wherever they stand, longest first; no ordinary or short words."""
        names = {name for name in self.users | self.hosts if _is_distinctive(name)}
        return sorted(names, key=lambda name: (-len(name), name))

    def words_pattern(self) -> re.Pattern[str]:
        """Return a pattern of those names as whole words."""
        if self._words is None:
            listed = "|".join(map(re.escape, self.words)) or r"(?!)"
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{listed})(?![A-Za-z0-9])")
        return self._words

    def user(self, name: str) -> str:
        """Return what stands for a user, such as user1."""
        return self._number("user", name)

    def host(self, name: str) -> str:
        """Return what stands for a host, such as host1."""
        return self._number("host", name)

    def gpu(self, uuid: str) -> str:
        """Return what stands for a GPU's UUID, such as gpu1."""
        return self._number("gpu", uuid)

    def home_of(self, path: str) -> str | None:
        """Return the home directory with which a path begins, None if it begins with none."""
        own = self._own_home
        if own and (path == own or path.startswith((f"{own}/", f"{own}\\"))):
            return own
        home = HOME.match(path)
        return home[0] if home else None

    def home(self, directory: str) -> str:
        """Return what stands for a home directory: ``~``, and ``~2`` … for further ones."""
        if re.fullmatch(r"~\d*", directory):
            return directory
        self._homes.setdefault(directory)
        number = list(self._homes).index(directory) + 1
        return "~" if number == 1 else f"~{number}"

    def _number(self, kind: str, name: str) -> str:
        if _PLACEHOLDER.fullmatch(name):
            return name
        known = self._numbers[kind]
        return known.setdefault(name, f"{kind}{len(known) + 1}")


def is_loopback(host: str) -> bool:
    """Tell whether a host's name is everybody's."""
    return _NO_HOST.fullmatch(host) is not None


def _is_distinctive(name: str) -> bool:
    return (
        len(name) >= SHORTEST
        and not _ORDINARY.fullmatch(name)
        and re.search(r"[A-Za-z]", name) is not None
    )

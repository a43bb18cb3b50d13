"""Find user and host names and assign stable pseudonyms."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

SEPARATOR = r"[\\/]+"
"""Separator of path components: POSIX, Windows, or with escaped backslashes."""
PART = r"[\w.@%+-]+"
"""One path component."""

# Mount points under which clusters place home directories.
_DISKS = (
    r"afs|beegfs|cephfs|cluster|data|export|global|gpfs|lustre|mnt|nas|net|nfs|pscratch|scratch"
    r"|shared|storage|usr|vol|work"
)
# Matches /home/jane, /Users/jane, C:\Users\jane, /root, ~ and ~jane, and directories grouped by
# first letter such as /global/homes/j/jane. A capital after /home/ is a graph node: /home/Gemm.
HOME = re.compile(
    rf"(?<![\w.])(?:[A-Za-z]:)?(?:{SEPARATOR}(?:{_DISKS})\d*(?:{SEPARATOR}{PART})?)?{SEPARATOR}"
    rf"(?:(?:home|homes|localhome){SEPARATOR}(?:([a-z]){SEPARATOR}(?=\1))?(?![A-Z])"
    rf"|Users{SEPARATOR})(?P<user>{PART})"
    r"|(?<![\w.])/root(?![\w.-])|(?<![\w.~])~(?P<tilde>[A-Za-z_][\w.-]*)?(?=/)"
)
"""A home directory; the group ``user`` or ``tilde`` is the user's name, if it is in the path."""
# Scratch directories grouped by first letter: /pscratch/sd/j/jane.
_BY_LETTER = re.compile(rf"/(?:{_DISKS}|users)\d*(?:/{PART})?/([a-z])/(\1[\w-]+)")
# Environment variables such as USER, SLURM_JOB_USER and SLURMD_NODENAME. A number is not a name.
_VALUE = r"=(?![\d.]+(?![\w.-]))([\w.-]+)"
USER_VARIABLE = re.compile(rf"(?<![A-Za-z0-9])((?:\w*_)?(?:USER|LOGNAME|USERNAME)){_VALUE}")
HOST_VARIABLE = re.compile(
    rf"(?<![A-Za-z0-9])((?:\w*_)?(?:HOST|HOSTNAME|NODENAME|NODELIST|MASTER_ADDR)){_VALUE}"
)
# Fields of messages. Their values are replaced in place only: a node may be one of a graph, whose
# name occurs in other texts too.
USER_FIELD = re.compile(rf"(?<![\w.-])(user(?:_?name)?|login){_VALUE}")
HOST_FIELD = re.compile(rf"(?<![\w.-])(host(?:_?name)?|node(?:_?name)?){_VALUE}")
# PyTorch's Inductor caches kernels in /tmp/torchinductor_<user>.
_INDUCTOR_CACHE = re.compile(r"torchinductor_([\w.-]+)(?=/|$)")
# MAIL is limited to these: names of operators and layers may contain an @ and dots.
_TOP_LEVEL_DOMAINS = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|app|cloud|info|local|lan|internal|intranet|corp|cluster"
    "|ac|at|au|be|br|ca|ch|cn|de|dk|es|eu|fi|fr|hk|ie|il|in|it|jp|kr|nl|no|nz|pl|pt|ru|se|sg|tw|uk"
    "|us|za"
)
MAIL = re.compile(rf"(?<![\w.@+-])([\w.+-]+)@((?:[\w-]+\.)+(?:{_TOP_LEVEL_DOMAINS}))(?![\w-])")
"""A mail address, or an account on a fully qualified host."""

URL = re.compile(r"(?<=://)(?:[^\s/@\"'<>]*@)?([A-Za-z0-9_][\w.-]*)")
"""The host of a URL."""
URL_USER = re.compile(r"(?<=://)([\w.+-]+)(?=@)")
"""The user of a URL such as ssh://jane@host."""

SHORTEST = 5
"""Minimum length of a name that is replaced in any text.

Shorter names occur inside ordinary words; they are replaced in paths and addresses only.
"""
# Accounts and hosts with everyday names: replacing them would garble layer and module names.
_ORDINARY = re.compile(
    r"root|users?|home|ubuntu|debian|centos|fedora|admin|administrator|guest|public|shared|default"
    r"|local|localhost|localdomain|runner|docker|jovyan|vagrant|no(?:body|group)|workers?|master|server|client"
    r"|nodes?|compute|login|train|training|trainer|models?|data|datasets?|batch|layers?|linear"
    r"|module|tensor|torch|pytorch|tensorflow|mxnet|python|julia|nvidia|cuda|kernels?|forward"
    r"|backward|optimizer|attention|decoder|encoder|embedding|loader|network|profile|profiler"
    r"|projects?|workspace|students?|research|cluster|desktop|laptop|workstation|machine|unknown"
    r"|modal|colab|kaggle|ec2-user|azureuser|sagemaker-user",
    re.IGNORECASE,
)
_PSEUDONYM = re.compile(r"(?:user|host|gpu)\d+")
_LOOPBACK = re.compile(r"localhost|0\.0\.0\.0|127\.[\d.]+|::1")


class Identities:
    """Known users, hosts and GPUs, and their pseudonyms.

    Pseudonyms are numbered in the order of first replacement and never change afterwards.

    Attributes:
        users: known user names.
        hosts: known host names.
    """

    def __init__(self) -> None:
        self.users: set[str] = set()
        self.hosts: set[str] = set()
        self._homes: dict[str, None] = {}
        self._local_home: str | None = None
        self._numbers: dict[str, dict[str, str]] = {"user": {}, "host": {}, "gpu": {}}
        self._words: re.Pattern[str] | None = None

    def add_this_machine(self) -> None:
        """Add this machine's host name, and the user and home directory of this process."""
        host = socket.gethostname()
        self.add_host(host)
        self.add_host(host.partition(".")[0])
        home = Path.home()
        if len(home.parts) > 1:
            self._local_home = str(home)
            self.add_user(home.name)
        try:
            self.add_user(getpass.getuser())
        except (KeyError, OSError):  # a user without a name
            return

    def collect(self, text: str) -> None:
        """Add the names in home directories, variables, cache directories and URLs of a text."""
        for home in HOME.finditer(text):
            self.add_user(home["user"] or home["tilde"])
        for pattern in (_BY_LETTER, USER_VARIABLE):
            for _, name in pattern.findall(text):
                self.add_user(name)
        for name in _INDUCTOR_CACHE.findall(text):
            self.add_user(name)
        for _, name in HOST_VARIABLE.findall(text):
            self.add_host(name)
        for name in URL.findall(text):
            self.add_host(name)

    def add_user(self, name: str | None) -> None:
        if name and not _PSEUDONYM.fullmatch(name) and name not in (".", "..", "root"):
            self.users.add(name)
            self._words = None

    def add_host(self, name: str | None) -> None:
        if name and not _PSEUDONYM.fullmatch(name) and not is_loopback(name):
            self.hosts.add(name)
            self._words = None

    @property
    def words(self) -> list[str]:
        """Distinctive names, longest first; these are replaced anywhere in a text."""
        names = {name for name in self.users | self.hosts if _is_distinctive(name)}
        # Longest first: an alternation of a regular expression takes the first that matches.
        return sorted(names, key=lambda name: (-len(name), name))

    def words_pattern(self) -> re.Pattern[str]:
        if self._words is None:
            listed = "|".join(map(re.escape, self.words)) or r"(?!)"
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{listed})(?![A-Za-z0-9])")
        return self._words

    def user(self, name: str) -> str:
        return self._number("user", name)

    def host(self, name: str) -> str:
        return self._number("host", name)

    def gpu(self, uuid: str) -> str:
        return self._number("gpu", uuid)

    def home_of(self, path: str) -> str | None:
        """Return the home directory at the start of a path, None if there is none."""
        # The local home may be anywhere (/staff/jw), so the pattern alone would miss it.
        own = self._local_home
        if own and (path == own or path.startswith((f"{own}/", f"{own}\\"))):
            return own
        home = HOME.match(path)
        return home[0] if home else None

    def home(self, directory: str) -> str:
        """Return the replacement of a home directory: ``~``, then ``~2``, ``~3`` and so on."""
        if re.fullmatch(r"~\d*", directory):
            return directory
        self._homes.setdefault(directory)
        number = list(self._homes).index(directory) + 1
        return "~" if number == 1 else f"~{number}"

    def _number(self, kind: str, name: str) -> str:
        # Redacting twice must not change anything.
        if _PSEUDONYM.fullmatch(name):
            return name
        known = self._numbers[kind]
        return known.setdefault(name, f"{kind}{len(known) + 1}")


def is_loopback(host: str) -> bool:
    """Return True if a host name or address is the loopback interface or 0.0.0.0."""
    return _LOOPBACK.fullmatch(host) is not None


def _is_distinctive(name: str) -> bool:
    return (
        len(name) >= SHORTEST
        and not _ORDINARY.fullmatch(name)
        and re.search(r"[A-Za-z]", name) is not None
    )

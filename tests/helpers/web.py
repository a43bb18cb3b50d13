"""A web server for tests: of a directory, with or without parts of files, or none that answers."""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Site:
    """A running server: its address, and the paths asked for so far."""

    url: str
    asked: list[str] = field(default_factory=list)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and parts of them where the server is to."""

    site: Site
    ranges: bool

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.site.asked.append(self.path)
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        file = Path(self.translate_path(self.path))
        if not (self.ranges and part and file.is_file()):
            super().do_GET()
            return
        content = file.read_bytes()
        first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.end_headers()
        self.wfile.write(content[first : last + 1])

    def end_headers(self) -> None:
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        super().end_headers()


@contextlib.contextmanager
def serving(directory: Path, *, ranges: bool = True) -> Iterator[Site]:
    """Serve a directory at an address of this machine."""
    site = Site("")
    kind = type("Handler", (_Handler,), {"site": site, "ranges": ranges})
    handler = functools.partial(kind, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """Return an address at which connections are taken and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"

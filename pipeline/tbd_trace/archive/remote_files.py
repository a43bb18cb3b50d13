"""File systems behind URLs: of fsspec, with limits of time and errors for users."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from tbd_trace.errors import StoreError, UsageError

HTTP = ("http", "https")
"""Schemes of URLs that can only be read."""

_S3 = ("s3", "s3a")
_CONNECT_SECONDS = 10
_SILENT_SECONDS = 30  # limit of each read; a large file over a slow line may take much longer


def remote_file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, of fsspec, and the path in it.

    Raises:
        UsageError: the scheme is unknown, its package is not installed, or the URL has credentials.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    # A secret key may have a slash, so that the bucket seems to be KEY:SECRET up to there.
    bucket = rest.partition("/")[0]
    if scheme in _S3 and ("@" in bucket or (":" in bucket and not bucket.startswith("arn:"))):
        raise UsageError(
            f"{scheme}://…: a URL must not hold credentials; set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    try:
        import fsspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError(
            f"{url}: fsspec is not installed; run `pip install 'tbd-trace[remote]'`"
        ) from None
    try:
        filesystem, root = fsspec.core.url_to_fs(url, **_options(scheme))
    except (ImportError, ValueError) as error:
        raise UsageError(f"{url}: cannot be opened ({error}); download the archive") from error
    return filesystem, root.rstrip("/")


def _options(scheme: str) -> dict[str, Any]:
    if scheme in _S3:
        # Where the service is gone, botocore would try for minutes.
        limits = {
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": _SILENT_SECONDS,
            "retries": {"total_max_attempts": 2},
        }
        return {"config_kwargs": limits, "use_listings_cache": False, "skip_instance_cache": True}
    if scheme not in HTTP:
        return {}
    import aiohttp  # noqa: PLC0415 - an extra

    # aiohttp's default limits the total time to 5 minutes, too little for a large archive.
    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS
    )
    return {"client_kwargs": {"timeout": timeout}}


@contextlib.contextmanager
def remote_errors(url: str, what: str = "read") -> Iterator[None]:
    """Translate the errors of a protocol's library; FileNotFoundError passes.

    Raises:
        StoreError: the URL cannot be read, or written if ``what`` says so.
    """
    try:
        yield
    except (FileNotFoundError, StoreError, zipfile.BadZipFile, zlib.error, EOFError):
        raise
    except Exception as error:  # fsspec passes on the errors of each protocol's library
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{url}: cannot be {what} ({reason}); check the address and the connection"
        ) from error

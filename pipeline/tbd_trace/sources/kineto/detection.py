"""Recognize a trace of torch.profiler by its content."""

from __future__ import annotations

import re
from pathlib import Path

from tbd_trace.sources.unpacked import Unpacked

_MORE_BYTES = 8 << 20  # where the first ones do not decide, as behind a long header
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16
_CATEGORIES = (
    rb"cpu_op|kernel|Kernel|Operator|Runtime|Memcpy|Memset|cuda_runtime|cuda_driver|cuda_sync|"
    rb"gpu_memcpy|gpu_memset|user_annotation|gpu_user_annotation|python_function|ac2g|"
    rb"cpu_instant_event|xpu_runtime|xpu_driver|mtia_runtime|mtia_ccp_events|privateuse1_runtime"
)
_EVENT = re.compile(rb'"cat"\s*:\s*"(?:' + _CATEGORIES + rb')"')
_HEADER = re.compile(rb'"(?:schemaVersion|deviceProperties|traceName)"\s*:')
_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb"\[\s*\{")
# Keys with which other files begin.
_OTHERS = re.compile(rb'\{\s*"(?:schema|rocprofiler-sdk-tool)"\s*:')


def is_trace(path: Path, head: bytes) -> bool:
    """Return True if a file is a trace of torch.profiler, plain or gzipped.

    Args:
        head: its first 64 KiB.
    """
    if head.startswith(_GZIP):
        with Unpacked(path) as content:
            start = content.read(_HEAD_BYTES)
    else:
        start = head.removeprefix(b"\xef\xbb\xbf")
    start = start.lstrip()
    if start[:1] not in (b"{", b"[") or _OTHERS.match(start):
        return False
    if start[:1] == b"[":
        return bool(_BARE_LIST.match(start) and _EVENT.search(start))
    known = _known(start)
    if known is None:
        with Unpacked(path) as content:
            known = _known(content.read(_MORE_BYTES))
    return bool(known)


def _known(start: bytes) -> bool | None:
    # None where more of the file is needed.
    has_list = _LIST.search(start)
    if has_list and (_EVENT.search(start) or _HEADER.search(start)):
        return True
    return None if len(start) >= _HEAD_BYTES - 1024 or has_list else False

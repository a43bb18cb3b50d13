"""The line that says why a program failed, in logs with lines of profilers and launchers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tbd_collectors.failure_line import failure_line

TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 10, in <module>
    raise ValueError("boom: 3 of 4")
           ^^^^^^^^^^^^^^^^^^^^^^^
ValueError: boom: 3 of 4
"""
NSYS = """Generating '/tmp/nsys-report-5c0f.qdstrm'
\r[1/1] [0%                          ] timeline.nsys-rep\r[1/1] [====100%] timeline.nsys-rep
Generated:
    /tmp/c/timeline.nsys-rep
"""
TORCHRUN = """W1130 15:28:47.000000 1 torch/distributed/elastic/multiprocessing/api.py:908] Sending
E1130 15:28:47.000000 1 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1)
Traceback (most recent call last):
  File "/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_15:28:47
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 1)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
RANKS = "".join(f"[rank0]: {line}\n" for line in TRACEBACK.splitlines())
CHAINED = """KeyError: 'first'

During handling of the above exception, another exception occurred:

"""
SPAWN = """torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
"""
STARTED = "USDT:2026-11-30 19:40:40 7:7 SyncActivityProfilerHandler.cpp:52] profiler_start\n"
STOPPED = "USDT:2026-11-30 19:40:41 7:7 SyncActivityProfilerHandler.cpp:59] profiler_stop\n"
GLOG = "[rank0]:[W1130 19:40:41.123456 ProcessGroup.cpp:1] Warning: not destroyed (operator ())\n"
ATEXIT = """Exception ignored in atexit callback: <function work at 0x7f886c8de7a0>
Traceback (most recent call last):
  File "train.py", line 3, in work
OSError: cannot flush
"""
THREAD = "Exception in thread Thread-1 (log):\n" + ATEXIT.partition("\n")[2]
LOWER_CASE = 'Traceback (most recent call last):\n  File "a.py", line 1\nstruct.error: 4 bytes\n'
LEAKED = """/lib/multiprocessing/resource_tracker.py:224: UserWarning: There are leaked objects
  warnings.warn('resource_tracker')
"""
FIRST = 'Traceback (most recent call last):\n  File "a.py", line 1\n'


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("epoch 1\n" + TRACEBACK, "ValueError: boom: 3 of 4"),
        (TRACEBACK + NSYS, "ValueError: boom: 3 of 4"),
        (RANKS + TORCHRUN, "ValueError: boom: 3 of 4"),
        (FIRST + CHAINED + TRACEBACK, "ValueError: boom: 3 of 4"),
        (FIRST + SPAWN + TRACEBACK, "ValueError: boom: 3 of 4"),
        (
            "usage: train.py [-h]\ntrain.py: error: --lr is missing\n" + NSYS,
            "train.py: error: --lr",
        ),
        ("no checkpoint\n" + TORCHRUN, "no checkpoint"),
        (STARTED + TRACEBACK + STOPPED, "ValueError: boom: 3 of 4"),
        (STARTED + "bye\n" + STOPPED + GLOG, "bye"),
        (TRACEBACK + ATEXIT + STOPPED, "ValueError: boom: 3 of 4"),
        (THREAD + "bye\n" + LEAKED, "bye"),
        (THREAD, "OSError: cannot flush"),
        ("epoch 1\n" + LOWER_CASE + GLOG, "struct.error: 4 bytes"),
        (TRACEBACK.replace("ValueError", STOPPED + "ValueError"), "ValueError: boom: 3 of 4"),
        ("==12== NVPROF is profiling\nbad input\n==12== Error: Application", "bad input"),
        (NSYS, "no output"),
        ("", "no output"),
    ],
)
def test_the_line_is_the_programs(log: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert failure_line(tmp_path / "log").startswith(expected)


def test_of_a_long_log_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(TRACEBACK + "x\n" * 2_000_000)
    assert failure_line(tmp_path / "log") == "x"
    assert failure_line(tmp_path / "missing") == "no output"

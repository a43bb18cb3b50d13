"""Mark training automatically, then import the ``sitecustomize`` that this one hides.

Every interpreter that the command starts runs this, so it imports as little as possible.
"""

import sys

if sys.version_info >= (3, 10):  # noqa: UP036 - older ones cannot import the package
    try:
        from tbd_models.auto import install

        install()
    except Exception as error:
        sys.stderr.write(f"tbd-trace: training is not marked automatically ({error})\n")

_own = sys.modules.pop("sitecustomize")
_place = sys.path.index(__file__.rpartition("/")[0])
_directory = sys.path.pop(_place)
try:
    __import__("sitecustomize")
except ImportError as error:
    if error.name != "sitecustomize":
        raise
finally:
    sys.path.insert(_place, _directory)
    sys.modules.setdefault("sitecustomize", _own)

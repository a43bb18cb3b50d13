"""Load samples from files in MXNet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mxnet import MXNetError
from mxnet.gluon.data import DataLoader

from tbd_models.decoded import Decoded, failed, in_new_directory, stacked
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch


def decoded_batches(decoded: Decoded | None, settings: Settings) -> Callable[[int], Batch]:
    """Return a function to the next batch; workers are threads.

    Raises UnsupportedError, also later, if a file cannot be read.
    """
    samples, directory = in_new_directory(decoded, settings)
    # Threads, as the suite's ImageRecordIter has: Gluon waits 2 minutes for a process that ended.
    # Decoders release Python's lock.
    loader = DataLoader(
        samples,
        settings.batch_size,
        num_workers=settings.loader_workers,
        batchify_fn=stacked,
        thread_pool=True,
    )
    loaded: Iterator[Batch] = iter(loader)

    def following(_number: int) -> Batch:
        try:
            return next(loaded)
        except (OSError, MXNetError) as error:
            raise failed(directory, error) from None

    return following

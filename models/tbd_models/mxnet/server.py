"""Serve a key-value store of MXNet, or schedule its servers, as the variable DMLC_ROLE says.

``python -m tbd_models.mxnet.server`` is started by ``tbd_models.mxnet.shared_store``.
"""

from tbd_models.mxnet import restore_numpy_names

restore_numpy_names()

import mxnet  # noqa: E402, F401 - serves until all workers have left, then ends the program

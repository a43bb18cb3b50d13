"""Answer whether a training program fits a GPU, for ``tbd-trace fit``."""

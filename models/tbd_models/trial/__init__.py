"""Try a change of an unedited training program, for ``tbd-trace try``."""

"""Error of the page reader."""

from __future__ import annotations


class UnsupportedLayout(Exception):
    """The page reader cannot read a file, table or page; SQLite has to.

    Any function of the page reader raises it for unusual or damaged data.
    """

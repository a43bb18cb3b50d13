"""Drawings of matplotlib as parts of a page: no ids that clash, colours that follow the page's."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = ("metadata", "style", "title", "desc")
# Black is matplotlib's colour of text and axes, the greys those of its grid and its ground.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--card)",
    "#dddddd": "var(--grid)",
}
_COLOUR = re.compile("|".join(_COLOURS), re.IGNORECASE)


def inline_svg(svg: bytes, alt: str, prefix: str) -> str:
    """Return a drawing as an element of an HTML page.

    Args:
        svg: an SVG file as matplotlib writes it, of text (``svg.fonttype`` none) or of outlines.
        alt: what it shows, for those who do not see it.
        prefix: what its ids begin with, another for each drawing of a page.
    """
    root = ElementTree.fromstring(svg)  # our own drawing, no file from outside
    for parent in root.iter():
        for child in [c for c in parent if _local(c.tag) in _DROPPED]:
            parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {
            _local(name): _attribute(name, value, prefix) for name, value in element.attrib.items()
        }
    for name in ("version", "width", "height"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": alt}
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == _XLINK_HREF and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    if name == _XLINK_HREF:  # an image of pixels, as data
        return "".join(value.split())
    referred = _REFERENCE.sub(rf"url(#{prefix}\1)", value)
    return _COLOUR.sub(lambda found: _COLOURS[found[0].lower()], referred)

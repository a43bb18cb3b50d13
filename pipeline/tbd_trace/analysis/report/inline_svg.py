"""Embed SVG of matplotlib in a page, with unique ids and the colours of the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")  # of coordinates, in points
_FONT = re.compile(r"font-family: [^;]*;? ?")  # that of the page
_DROPPED = ("metadata", "style", "title", "desc")
# Colours of matplotlib for text and axes, background, and grid; the page's follow its dark mode.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--card)",
    "#dddddd": "var(--grid)",
}
_COLOUR = re.compile("|".join(_COLOURS), re.IGNORECASE)


def inline_svg(svg: bytes, alt: str, prefix: str) -> str:
    """Convert an SVG file of matplotlib to an element of an HTML page.

    Args:
        prefix: prefix of its ids, unique on the page.
    """
    # ElementTree is safe here: the file is our own drawing.
    root = ElementTree.fromstring(svg)
    used = _used_ids(root)
    for parent in root.iter():
        for child in [c for c in parent if _local(c.tag) in _DROPPED]:
            parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.tail = None  # line breaks and indentation
        element.text = element.text if element.text and element.text.strip() else None
        element.attrib = {
            _local(name): _attribute(name, value, prefix)
            for name, value in element.attrib.items()
            if name != "id" or value in used
        }
    # Without a size, the drawing scales to the width of its container by its viewBox.
    for name in ("version", "width", "height"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": alt}
    return ElementTree.tostring(root, encoding="unicode")


def _used_ids(root: ElementTree.Element) -> set[str]:
    # Most elements of matplotlib have an id, and few are referred to.
    values = [value for element in root.iter() for value in element.attrib.values()]
    return {name for value in values for name in _REFERENCE.findall(value)} | {
        value[1:] for value in values if value.startswith("#")
    }


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == _XLINK_HREF and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    if name == _XLINK_HREF:  # a raster image as a data URI, which matplotlib wraps
        return "".join(value.split())
    value = _FONT.sub("", value) if name == "style" else _DECIMALS.sub(r"\1", value)
    referred = _REFERENCE.sub(rf"url(#{prefix}\1)", value)
    return _COLOUR.sub(lambda match: _COLOURS[match[0].lower()], referred)

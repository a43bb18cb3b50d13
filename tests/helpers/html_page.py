"""Reading a page as a browser would: its elements and its texts."""

from __future__ import annotations

import base64
from html.parser import HTMLParser


class Reader(HTMLParser):
    """What a browser would make of a page: its elements, its texts per element."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.elements[-1][0], data.strip()))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def said(self) -> str:
        return " ".join(text for _, text in self.texts)

    def scripts_and_handlers(self) -> tuple[int, list[str]]:
        """Return how many scripts there are, and the names of inline event handlers."""
        handlers = [name for _, attributes in self.elements for name in attributes]
        return len(self.all("script")), [name for name in handlers if name.startswith("on")]


def csv_of(reader: Reader) -> dict[str, str]:
    """Return the CSV files that a page carries, by file name."""
    links = [link for link in reader.all("a") if link.get("download")]
    contents = [(link["href"] or "").partition("base64,")[2] for link in links]
    return {
        link["download"] or "": base64.b64decode(content).decode()
        for link, content in zip(links, contents, strict=True)
    }

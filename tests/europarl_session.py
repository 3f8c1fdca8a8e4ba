"""A session of Europarl, as OPUS has it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.etree import ElementTree


def opus_pairs(path: Path) -> list[tuple[str, str]]:
    """English and French sentences, of two XML files and their alignment."""
    sentences = {}
    with zipfile.ZipFile(path) as archive:
        for language in ("en", "fr"):
            name = f"dummy_data/{language}.zip/Europarl/raw/{language}/ep-00-01-17.xml"
            root = ElementTree.fromstring(archive.read(name))
            sentences[language] = {s.get("id"): " ".join("".join(s.itertext()).split()) for s in root.iter("s")}
        links = ElementTree.fromstring(archive.read("dummy_data/en-fr.xml.gz")).iter("link")
        return [
            (
                " ".join(sentences["en"][number] for number in english.split()),
                " ".join(sentences["fr"][number] for number in french.split()),
            )
            for english, french in (link.get("xtargets", "").split(";") for link in links)
        ]

"""The models that a first start offers: one good small model for this machine's memory, and one tiny."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path

import psutil

_log = logging.getLogger(__name__)

CATALOG = Path(__file__).resolve().parents[2] / "resources" / "starters.json"


@dataclass(frozen=True)
class StarterOffer:
    """One model to begin with.

    Attributes:
        repository: at the hub.
        name: for a person.
        size: bytes of the version that is meant, about.
        is_tiny: the one that runs anywhere.
    """

    repository: str
    name: str
    size: int
    is_tiny: bool = False


def starter_offers(memory_bytes: int | None = None, catalog: Path = CATALOG) -> list[StarterOffer]:
    """The good one for so much memory (this machine's where it is None), then the tiny one."""
    memory = memory_bytes if memory_bytes is not None else int(psutil.virtual_memory().total)
    try:
        rows = json.loads(catalog.read_text(encoding="utf-8"))
        offers = [
            (
                int(row["memory_gb"]) * 10**9,
                StarterOffer(str(row["repository"]), str(row["name"]), int(row["size"]), row["memory_gb"] == 0),
            )
            for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("the starters cannot be looked up: %s", error)
        return []
    good = [
        offer
        for needed, offer in sorted(offers, key=lambda pair: pair[0])
        if not offer.is_tiny and needed <= memory
    ]
    return [*good[-1:], *(offer for _, offer in offers if offer.is_tiny)]

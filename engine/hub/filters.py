"""What a search of the hub may leave out: by owner, licence, size, architecture, and who may download.

The hub is asked for what it can sift itself; every answer is held against the filter once more, because mirrors
sift less. It states no number of parameters for some repositories: then the name has to tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.hub.client import HubModel

_SIZE = re.compile(r"(?<![\w.])(?:(\d{1,2})x)?(\d{1,4}(?:\.\d{1,3})?)([BM])(?![A-Za-z0-9])", re.I)
_UNITS = {"b": 10**9, "m": 10**6}


@dataclass(frozen=True)
class SearchFilter:
    """Which models a search returns; the default leaves out none.

    Attributes:
        author: whose models; "" is anyone's.
        license: the hub's short name, such as "apache-2.0"; "" is any.
        is_open_only: leave out what asks to accept terms.
        min_parameters, max_parameters: bounds, included; 0 is none. A model whose size nobody tells is left out by
            the lower bound alone.
        architectures: those wanted; empty is any. A model whose architecture the hub does not state stays.
    """

    author: str = ""
    license: str = ""
    is_open_only: bool = False
    min_parameters: int = 0
    max_parameters: int = 0
    architectures: frozenset[str] = frozenset()

    @property
    def tags(self) -> list[str]:
        """What the hub sifts by."""
        return ["gguf", f"license:{self.license}"] if self.license else ["gguf"]

    @property
    def sifts_here(self) -> bool:
        """Whether it asks for something that the hub cannot sift by."""
        return bool(self.min_parameters or self.max_parameters or self.architectures)

    def accepts(self, model: HubModel) -> bool:
        """Whether the model stays."""
        parameters = model.num_parameters or parameters_in(model.name)
        return (
            (not self.author or model.owner.casefold() == self.author.casefold())
            and (not self.license or model.license == self.license)
            and not (self.is_open_only and model.gated)
            and parameters >= self.min_parameters
            and (not self.max_parameters or parameters <= self.max_parameters)
            and (not self.architectures or not model.architecture or model.architecture in self.architectures)
        )


def parameters_in(name: str) -> int:
    """The number of parameters that a model's name states ("7B", "8x7B", "270m"); 0 where it states none."""
    sizes = [
        int(float(number) * int(experts or 1) * _UNITS[unit.lower()])
        for experts, number, unit in _SIZE.findall(name)
    ]
    return max(sizes, default=0)

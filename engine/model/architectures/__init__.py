"""What distinguishes one architecture from another: one row of data each.

A row says what the metadata leaves unsaid (where norms sit, how rope pairs values, which layers slide) and how
tensors are named. Everything that can be resolved while loading is, so that rows stay short and the plan plain.
The package knows no file and no op.

Facts were observed with llama.cpp on small models of each architecture; the goldens in ``tests`` hold them.
"""

from engine.model.architectures.dense import DENSE
from engine.model.architectures.experts import EXPERTS
from engine.model.architectures.hybrid import HYBRID
from engine.model.architectures.refused import refusal
from engine.model.architectures.vocabulary import Architecture

ROWS = (*DENSE, *EXPERTS, *HYBRID)

# Architectures whose files always hold an output matrix; elsewhere the token embedding may stand for it.
UNTIED = frozenset(
    {
        *(
            "apertus",
            "baichuan",
            "bailingmoe",
            "bailingmoe2",
            "codeshell",
            "dbrx",
            "dots1",
            "exaone-moe",
            "gpt-oss",
        ),
        *(
            "gptneox",
            "internlm2",
            "maple",
            "mellum",
            "mimo2",
            "minimax-m2",
            "minimax-m3",
            "muse-glimmer",
            "nemotron",
        ),
        *("olmo2", "olmoe", "orion", "phi2", "phimoe", "qwen2moe", "stablelm", "step35", "talkie", "xverse"),
    }
)

__all__ = ["ROWS", "UNTIED", "Architecture", "has_row", "refusal", "row_of"]

_BY_NAME: dict[str, list[Architecture]] = {}
for _row in ROWS:
    _BY_NAME.setdefault(_row.name, []).append(_row)


def has_row(name: str) -> bool:
    """Whether the architecture is supported, in some number of layers at least."""
    return name in _BY_NAME


def row_of(name: str, num_layers: int) -> Architecture | None:
    """The row of an architecture with that many layers; None where there is none."""
    return next((row for row in _BY_NAME.get(name, ()) if row.only_with_layers in {None, num_layers}), None)

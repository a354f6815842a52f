"""Chat formats of our own, for files whose template is missing or cannot be used.

Each is a row: the tokens by which a vocabulary is recognised, and the format as a template. The formats are those
that the families publish; only system, user and assistant turns are needed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class BuiltinFormat:
    """One format.

    Attributes:
        name: as people know it.
        tokens: all of them are in the vocabularies that use it.
        source: the template.
    """

    name: str
    tokens: tuple[str, ...]
    source: str


def _turns(turn: str, opening: str, *, start: str = "{{ bos_token }}", roles: str = "") -> str:
    """A template of equal turns. ``roles``: a Jinja expression that renames ``message.role``."""
    role = roles or "message.role"
    return (
        f"{start}{{% for message in messages %}}{{% set role = {role} %}}{turn}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{opening}{{% endif %}}"
    )


_SYSTEM_FIRST: Final = "{% if messages and messages[0].role == 'system' %}"

FORMATS: Final[tuple[BuiltinFormat, ...]] = (
    BuiltinFormat(
        "gpt-oss",
        ("<|start|>", "<|channel|>", "<|message|>", "<|return|>"),
        _turns(
            "<|start|>{{ role }}{% if role == 'assistant' %}<|channel|>final{% endif %}"
            "<|message|>{{ message.content }}<|end|>",
            "<|start|>assistant",
            start="",
        ),
    ),
    BuiltinFormat(
        "Llama 4",
        ("<|header_start|>", "<|header_end|>", "<|eot|>"),
        _turns(
            "<|header_start|>{{ role }}<|header_end|>\n\n{{ message.content|trim }}<|eot|>",
            "<|header_start|>assistant<|header_end|>\n\n",
        ),
    ),
    BuiltinFormat(
        "Llama 3",
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        _turns(
            "<|start_header_id|>{{ role }}<|end_header_id|>\n\n{{ message.content|trim }}<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
    ),
    BuiltinFormat(
        "Gemma 4",
        ("<|turn>", "<turn|>"),
        _turns(
            "<|turn>{{ role }}\n{{ message.content|trim }}<turn|>\n",
            "<|turn>model\n",
            roles="'model' if message.role == 'assistant' else message.role",
        ),
    ),
    BuiltinFormat(
        "Gemma",
        ("<start_of_turn>", "<end_of_turn>"),
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}"
        "{% if message.role == 'system' %}{% set ns.system = message.content|trim ~ '\n\n' %}{% else %}"
        "<start_of_turn>{{ 'model' if message.role == 'assistant' else 'user' }}\n"
        "{% if message.role == 'user' %}{{ ns.system }}{% set ns.system = '' %}{% endif %}"
        "{{ message.content|trim }}<end_of_turn>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    ),
    BuiltinFormat(
        "ChatML",
        ("<|im_start|>", "<|im_end|>"),
        _turns("<|im_start|>{{ role }}\n{{ message.content }}<|im_end|>\n", "<|im_start|>assistant\n", start=""),
    ),
    BuiltinFormat(
        "Granite",
        ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
        _turns(
            "<|start_of_role|>{{ role }}<|end_of_role|>{{ message.content }}<|end_of_text|>\n",
            "<|start_of_role|>assistant<|end_of_role|>",
            start="",
        ),
    ),
    BuiltinFormat(
        "Command R",
        ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
        _turns(
            "<|START_OF_TURN_TOKEN|>{{ role }}{{ message.content|trim }}<|END_OF_TURN_TOKEN|>",
            "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
            roles="{'system': '<|SYSTEM_TOKEN|>', 'assistant': '<|CHATBOT_TOKEN|>'}"
            ".get(message.role, '<|USER_TOKEN|>')",
        ),
    ),
    BuiltinFormat(
        "DeepSeek",
        ("<｜User｜>", "<｜Assistant｜>"),
        _turns(
            "{% if role == 'user' %}<｜User｜>{{ message.content }}{% elif role == 'assistant' %}"
            "<｜Assistant｜>{{ message.content }}<｜end▁of▁sentence｜>{% else %}{{ message.content }}{% endif %}",
            "<｜Assistant｜>",
        ),
    ),
    BuiltinFormat(
        "GLM 4",
        ("[gMASK]", "<sop>", "<|user|>", "<|assistant|>"),
        _turns("<|{{ role }}|>\n{{ message.content }}", "<|assistant|>\n", start="[gMASK]<sop>"),
    ),
    BuiltinFormat(
        "Phi 3",
        ("<|user|>", "<|assistant|>", "<|end|>"),
        _turns("<|{{ role }}|>\n{{ message.content }}<|end|>\n", "<|assistant|>\n"),
    ),
    BuiltinFormat(
        "Mistral",
        ("[INST]", "[/INST]"),
        "{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}"
        "{% if message.role == 'system' %}{% set ns.system = message.content ~ '\n\n' %}"
        "{% elif message.role == 'assistant' %}{{ message.content }}{{ eos_token }}"
        "{% else %}[INST]{{ ns.system }}{% set ns.system = '' %}{{ message.content }}[/INST]{% endif %}"
        "{% endfor %}",
    ),
    BuiltinFormat(
        "Zephyr",
        ("<|user|>", "<|assistant|>"),
        _turns("<|{{ role }}|>\n{{ message.content }}{{ eos_token }}\n", "<|assistant|>\n", start=""),
    ),
)
PLAIN: Final = BuiltinFormat(
    "plain",
    (),
    _turns(
        "{% if role != 'system' %}{{ role|capitalize }}: {% endif %}{{ message.content|trim }}\n\n", "Assistant:"
    ),
)


def choose_format(has_token: Callable[[str], bool]) -> BuiltinFormat:
    """The format that a vocabulary was made for; the plain one where none of its markers is known."""
    for row in FORMATS:
        if all(has_token(token) for token in row.tokens):
            return row
    return PLAIN

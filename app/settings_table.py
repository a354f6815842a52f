"""The declared table of settings, from which the dialog, the defaults and the documentation are made."""

from __future__ import annotations

import json
from dataclasses import dataclass

from app.translation import LANGUAGES, tr

Value = str | int | float | bool


_LARGEST = 2**31 - 1
"""What a setting without a maximum may be: the field of a form holds no larger number."""


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Attributes:
        title: what the dialog calls it; empty for values the app keeps for itself.
        help: one sentence.
        choices: the allowed values; empty when any is.
        words: what the dialog calls the choices.
        least_word: what the smallest allowed number means where that is no number.
        minimum: smallest allowed number.
        maximum: largest allowed number.
        is_long: a text of several lines.
        keywords: what else people call it, for the search.
    """

    key: str
    default: Value
    title: str = ""
    help: str = ""
    group: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    words: tuple[str, ...] = ()
    least_word: str = ""
    is_long: bool = False
    keywords: str = ""

    @property
    def type(self) -> type[Value]:
        """The type of its values: str, int, float or bool."""
        return type(self.default)

    def accept(self, value: object) -> Value:
        """``value`` in the setting's type; raises ValueError when it is not allowed."""
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                value = float(value)
            except OverflowError as error:  # a file may hold any number of digits
                raise ValueError(f"{self.key} is larger than any number can be") from error
        if type(value) is not self.type:
            raise ValueError(f"{self.key} must be {self.type.__name__}, not {type(value).__name__}")
        if self.choices and value not in self.choices:
            raise ValueError(f"{self.key} must be one of {', '.join(self.choices)}")
        if isinstance(value, int | float):
            if not (self.minimum is None or value >= self.minimum):
                raise ValueError(f"{self.key} must be at least {self.minimum:g}")
            maximum = _LARGEST if self.maximum is None else self.maximum
            if not value <= maximum:
                raise ValueError(f"{self.key} must be at most {maximum:g}")
            if value != value:
                raise ValueError(f"{self.key} must be a number")
        assert isinstance(value, str | int | float | bool)
        return value


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "theme",
        "system",
        tr("Theme"),
        tr("Light, dark, or as the system says."),
        tr("Appearance"),
        choices=("system", "light", "dark"),
        words=(tr("As the system"), tr("Light"), tr("Dark")),
    ),
    Setting("zoom", 1.0, tr("Text size"), tr("Scales all text."), tr("Appearance"), minimum=0.8, maximum=2.0),
    Setting(
        "language",
        "system",
        tr("Language"),
        tr("Of menus and sentences; the answers are in the language you write in. Applies at the next start."),
        tr("Appearance"),
        choices=("system", *LANGUAGES),
        words=(tr("As the system"), *LANGUAGES.values()),
    ),
    Setting(
        "notifications",
        True,
        tr("Notifications"),
        tr("Says so when something that took longer than ten seconds ends while you are elsewhere."),
        tr("Window"),
    ),
    Setting(
        "tray",
        False,
        tr("Stay in the tray"),
        tr("Closing the window keeps Fireside running; its icon in the system's tray brings it back."),
        tr("Window"),
    ),
    Setting(
        "system_prompt",
        "",
        tr("System prompt"),
        tr("Told to the model before each chat; may be empty."),
        tr("Answers"),
        is_long=True,
    ),
    Setting(
        "temperature",
        0.7,
        tr("Temperature"),
        tr("How freely the next word is chosen; 0 always takes the likeliest."),
        tr("Answers"),
        minimum=0.0,
        maximum=5.0,
    ),
    Setting(
        "top_k",
        40,
        tr("Top-k"),
        tr("Only this many likeliest tokens are considered; 0 is off."),
        tr("Answers"),
        minimum=0,
        least_word=tr("off"),
    ),
    Setting(
        "top_p",
        0.95,
        tr("Top-p"),
        tr("Only the likeliest tokens that make up this share are considered; 1 is off."),
        tr("Answers"),
        minimum=0.0,
        maximum=1.0,
    ),
    Setting(
        "min_p",
        0.05,
        tr("Min-p"),
        tr("Drops tokens less likely than this share of the likeliest; 0 is off."),
        tr("Answers"),
        minimum=0.0,
        maximum=1.0,
    ),
    Setting(
        "repeat_penalty",
        1.0,
        tr("Repeat penalty"),
        tr("Above 1 makes repeating less likely."),
        tr("Answers"),
        minimum=0.1,
        maximum=5.0,
    ),
    Setting(
        "presence_penalty",
        0.0,
        tr("Presence penalty"),
        tr("Above 0 makes words that were used less likely; 0 is off."),
        tr("Answers"),
        minimum=-2.0,
        maximum=2.0,
    ),
    Setting(
        "frequency_penalty",
        0.0,
        tr("Frequency penalty"),
        tr("Above 0 makes a word less likely each time it is used; 0 is off."),
        tr("Answers"),
        minimum=-2.0,
        maximum=2.0,
    ),
    Setting(
        "seed",
        -1,
        tr("Seed"),
        tr("The same seed chooses the same words again; -1 draws another for each answer."),
        tr("Answers"),
        minimum=-1,
        maximum=2**31 - 1,
        least_word=tr("random"),
    ),
    Setting(
        "max_tokens",
        0,
        tr("Longest answer"),
        tr("In tokens; 0 is as long as the context allows."),
        tr("Answers"),
        minimum=0,
        least_word=tr("no limit"),
    ),
    Setting(
        "context_policy",
        "keep_recent",
        tr("When the context is full"),
        tr("Go on without the oldest turns, which a line marks, or stop and say so."),
        tr("Answers"),
        choices=("keep_recent", "stop"),
        words=(tr("Go on"), tr("Stop")),
    ),
    Setting(
        "kv_type",
        "f16",
        tr("Memory of what was read"),
        tr("Compact takes about half the memory. Applies when a model is loaded."),
        tr("Model"),
        choices=("f16", "q8_0"),
        words=(tr("Exact"), tr("Compact")),
    ),
    Setting(
        "reads_ahead",
        True,
        tr("Read ahead"),
        tr("A long draft is read while you write, so that the answer begins sooner."),
        tr("Model"),
    ),
    Setting(
        "context_length",
        0,
        tr("Context length"),
        tr("Tokens a chat may hold; 0 chooses for this machine. Applies when a model is loaded."),
        tr("Model"),
        minimum=0,
        maximum=2**24,
        least_word=tr("automatic"),
    ),
    Setting(
        "num_threads",
        0,
        tr("Threads"),
        tr("0 uses the physical cores. Applies when a model is loaded."),
        tr("Model"),
        minimum=0,
        maximum=1024,
        least_word=tr("automatic"),
    ),
    Setting(
        "memory_limit_gb",
        0.0,
        tr("Memory for read chats"),
        tr(
            "In gigabytes: what has been read stays in memory up to this, so that no chat is read twice. Applies "
            "when a model is loaded."
        ),
        tr("Model"),
        minimum=0.0,
        maximum=4096.0,
        least_word=tr("automatic"),
    ),
    Setting(
        "keeps_chats",
        True,
        tr("Reopen chats at once"),
        tr(
            "Keeps on the disk what the model has read of your chats, so that after a restart they go on without "
            "being read again. Off deletes it."
        ),
        tr("Storage"),
    ),
    Setting(
        "kept_chats_gb",
        4.0,
        tr("Disk space for read chats"),
        tr("In gigabytes; the chats used longest ago make room for others."),
        tr("Storage"),
        minimum=0.1,
        maximum=4096.0,
    ),
    Setting(
        "hub_endpoint",
        "",
        tr("Hub"),
        tr("The address that models are searched at and downloaded from; empty is the public hub."),
        tr("Model"),
        keywords=tr("endpoint, server, mirror, URL, Hugging Face, download"),
    ),
    Setting("library_folders", ""),  # a list of paths, as JSON
    Setting("last_model", ""),
    Setting("last_conversation", ""),
    Setting("default_preset", ""),  # its id
    Setting("is_options_panel_visible", False),
    Setting("window_geometry", ""),  # base64
    Setting("is_sidebar_visible", True),
    Setting("folded_folders", ""),  # ids
)


def describe_settings() -> str:
    """The table for a reader: each setting that has a title, with its key, default, range and sentence."""
    lines: list[str] = []
    group = ""
    for setting in SETTINGS:
        if not setting.title:
            continue
        if setting.group != group:
            group = setting.group
            lines += ["", group, ""]
        allowed = ", ".join(setting.choices)
        if setting.minimum is not None:
            allowed = (
                f"{setting.minimum:g} or more"
                if setting.maximum is None
                else (f"{setting.minimum:g} to {setting.maximum:g}")
            )
        default = json.dumps(setting.default)
        lines.append(f"  {setting.title} ({setting.key}: {default}{'; ' + allowed if allowed else ''})")
        lines.append(f"      {setting.help}")
    return "\n".join(lines[1:])

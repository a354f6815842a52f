"""What a conversation may set for itself: the system prompt, sampling and limits, else as the settings say.

A conversation's options hold only what differs. Values come from files, too, so each passes its setting's check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.settings import Settings
from app.settings_table import SETTINGS, Setting, Value
from app.storage.records import clean_text
from app.translation import tr
from engine.protocol import FormatKind, ResponseFormat, SamplingParams, Tool
from engine.tools import parse_tools

OPTION_GROUP = tr("Answers")

OPTIONS: tuple[Setting, ...] = tuple(setting for setting in SETTINGS if setting.group == OPTION_GROUP)
FORM_OPTIONS = (
    Setting("schema", ""),  # JSON Schema that answers follow; "" for free text
    Setting("schema_name", ""),
    Setting("schema_afterwards", False),  # as ``ResponseFormat.check_afterwards``
    Setting("tools", ""),  # JSON list of the functions that the model may call; "" for none
)
"""What a conversation sets elsewhere than in the panel's rows."""
_BY_KEY = {setting.key: setting for setting in (*OPTIONS, *FORM_OPTIONS)}


def accepted(options: Mapping[str, Any]) -> dict[str, Value]:
    """Those of ``options`` that there are, with allowed values."""
    found: dict[str, Value] = {}
    for key, value in options.items():
        if key in _BY_KEY:
            try:
                allowed = _BY_KEY[key].accept(value)
                found[key] = clean_text(allowed) if isinstance(allowed, str) else allowed
            except ValueError:
                continue
    return found


def effective(options: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """The value of every option: the conversation's own, else that of the settings."""
    defaults = {setting.key: settings.value(setting.key) for setting in OPTIONS}
    return accepted(defaults) | {setting.key: setting.default for setting in FORM_OPTIONS} | accepted(options)


def format_of(values: Mapping[str, Any]) -> ResponseFormat | None:
    """The form that ``values`` of ``effective`` ask answers to have; None for free text."""
    schema = str(values["schema"])
    if not schema.strip():
        return None
    return ResponseFormat(FormatKind.JSON_SCHEMA, schema, bool(values["schema_afterwards"]))


def tools_of(values: Mapping[str, Any]) -> tuple[Tool, ...]:
    """The functions that ``values`` of ``effective`` offer the model; raises InputError for a list that is none."""
    text = str(values["tools"])
    return parse_tools(text) if text.strip() else ()


def sampling_of(values: Mapping[str, Any], seed: int | None = None) -> SamplingParams:
    """The sampling that ``values`` of ``effective`` ask for; ``seed`` goes before theirs."""
    own_seed = int(values["seed"])
    return SamplingParams(
        temperature=values["temperature"],
        top_k=values["top_k"],
        top_p=values["top_p"],
        min_p=values["min_p"],
        repeat_penalty=values["repeat_penalty"],
        presence_penalty=values["presence_penalty"],
        frequency_penalty=values["frequency_penalty"],
        seed=seed if seed is not None else own_seed if own_seed >= 0 else None,
    )


class OptionValues(QObject):
    """The options of the conversation that is shown, as the rows of a form want them.

    Signals:
        changed(key): a value is another one now; "" when all may be.
        edited(key, value): the person set one; None where that of the settings is in force again.
    """

    changed = Signal(str)
    edited = Signal(str, object)

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._options: dict[str, Any] = {}
        settings.changed.connect(self.changed)

    @property
    def options(self) -> Mapping[str, Any]:
        """The conversation's own, as they are shown."""
        return self._options

    def show(self, options: Mapping[str, Any]) -> None:
        """Show another conversation's options."""
        self._options = dict(options)
        for setting in OPTIONS:
            self.changed.emit(setting.key)

    def value(self, key: str) -> Any:
        """The value in force."""
        return accepted(self._options).get(key, self._settings.value(key))

    def default(self, key: str) -> Value:
        """The value of the settings, which is in force where the conversation has none."""
        value: Value = self._settings.value(key)
        return value

    def set(self, key: str, value: Value) -> None:
        """Change a value; raises ValueError for one that is not allowed."""
        value = _BY_KEY[key].accept(value)
        if value == self.value(key):
            return
        own = None if value == self.default(key) else value
        self._options.pop(key, None)
        if own is not None:
            self._options[key] = own
        self.changed.emit(key)
        self.edited.emit(key, own)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.settings import Settings
from app.settings_table import SETTINGS, describe_settings


def test_values_outlast_the_app(tmp_path: Path) -> None:
    path = tmp_path / "дом" / "settings.json"
    settings = Settings(path)
    assert settings.value("theme") == "system"
    changed: list[str] = []
    settings.changed.connect(changed.append)
    settings.set("theme", "dark")
    settings.set("theme", "dark")
    settings.set("zoom", 2)
    settings.set("last_model", "/models/日本\udc81.gguf")
    assert changed == ["theme", "zoom", "last_model"]
    again = Settings(path)
    assert (again.value("theme"), again.value("zoom")) == ("dark", 2.0)
    assert again.value("last_model") == "/models/日本\udc81.gguf"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("theme", "purple"), ("zoom", 99.0), ("zoom", "1"), ("zoom", float("nan")), ("zoom", True),
        ("zoom", 10**400), ("num_threads", 1.5), ("num_threads", -1), ("is_sidebar_visible", 1),
        ("top_k", 2**31), ("top_k", 10**30), ("max_tokens", 10**400),
    ],
)  # fmt: skip
def test_what_the_table_does_not_allow_is_refused(key: str, value: str | float | bool) -> None:
    settings = Settings()
    with pytest.raises(ValueError, match=key):
        settings.set(key, value)
    assert settings.value(key) == next(setting.default for setting in SETTINGS if setting.key == key)


def test_an_unknown_key_raises() -> None:
    with pytest.raises(KeyError):
        Settings().value("colour")
    with pytest.raises(KeyError):
        Settings().set("colour", "red")


def test_bad_values_in_the_file_fall_back_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(
        json.dumps({"theme": 7, "zoom": 1.5, "temperature": 10**400, "from_the_future": [1]}), encoding="utf-8"
    )
    settings = Settings(path)
    assert (settings.value("theme"), settings.value("zoom"), settings.trouble) == ("system", 1.5, "")
    settings.set("zoom", 1.25)
    assert json.loads(path.read_text(encoding="utf-8"))["from_the_future"] == [1], (
        "another version's values are kept"
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"[" * 100_000])
def test_a_damaged_file_gives_the_defaults_and_is_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    settings = Settings(path)
    assert "defaults" in settings.trouble
    settings.set("theme", "light")
    assert Settings(path).value("theme") == "light"
    assert path.with_suffix(".damaged.json").read_bytes() == content


def test_an_unwritable_place_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    settings = Settings(tmp_path / "file" / "settings.json")
    notices: list[str] = []
    settings.notice.connect(notices.append)
    settings.set("theme", "dark")
    settings.set("zoom", 1.5)
    assert settings.value("theme") == "dark"
    assert len(notices) == 1


def test_the_table_is_printed_for_readers() -> None:
    text = describe_settings()
    for setting in SETTINGS:
        assert (f"({setting.key}: " in text) == bool(setting.title)
        if setting.title:
            assert setting.help in text
    assert "Text size (zoom: 1.0; 0.8 to 2)" in text
    assert 'Theme (theme: "system"; system, light, dark)' in text


def test_every_setting_a_person_sees_is_explained() -> None:
    for setting in SETTINGS:
        assert setting.accept(setting.default) == setting.default
        if setting.title:
            assert setting.help.endswith(".")
            assert setting.group

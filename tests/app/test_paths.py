from __future__ import annotations

from pathlib import Path

import pytest

from app.paths import HOME_VARIABLE, AppPaths


def test_one_variable_moves_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "Données 家 😀"
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    paths = AppPaths.default()
    folders = (paths.data, paths.config, paths.cache, paths.models)
    assert all(folder.is_relative_to(home) for folder in folders)
    assert len(set(folders)) == 4
    assert not home.exists()


def test_nothing_that_matters_lies_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    paths = AppPaths.default()
    for path in (paths.database, paths.settings_file, paths.models, paths.log_file):
        assert path.is_absolute()
        assert not path.is_relative_to(paths.cache)

"""``fireside``: starts the app, or with ``--terminal`` the engine's chat in the terminal."""

from __future__ import annotations

import argparse
import gc
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from app.paths import HOME_VARIABLE, AppPaths
from app.qt_bytecode import kept_bytecode
from app.qt_features import read_no_sources


def main(arguments: Sequence[str] | None = None) -> int:
    """Run Fireside; returns the exit status."""
    options = _parse(arguments)
    if options.home is not None:
        os.environ[HOME_VARIABLE] = str(options.home)
    paths = AppPaths.default()
    if options.model is not None and (problem := _problem_with(options.model)):
        print(problem, file=sys.stderr)
        return 2
    if options.list_settings:
        from app.settings_table import describe_settings

        print(describe_settings())
        return 0
    if options.terminal:
        return _run_terminal(paths, options.model)
    if not _has_display():
        print(
            "There is no display here, so no window can open: chat in this terminal with --terminal, "
            "or start Fireside from a graphical session.",
            file=sys.stderr,
        )
        return 1
    try:
        prepare(paths)
        from app.application import run
    except ImportError as error:
        if error.name is not None and not error.name.startswith("PySide6"):
            raise
        print(
            f"The window cannot open because a system library is missing ({error}): "
            "`python3 installers/source.py run` names the packages; --terminal works without.",
            file=sys.stderr,
        )
        return 1
    return run(paths, options.model and options.model.absolute())


def prepare(paths: AppPaths) -> None:
    """What comes before the modules of the window are imported. Raises ImportError where Qt cannot be loaded."""
    gc.disable()  # until all is imported: what a start makes stays, and looking through it for garbage takes time
    with kept_bytecode(paths.cache):
        _choose_language(paths)
        read_no_sources()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fireside", description="Chat with language models on your own machine.")
    parser.add_argument("model", type=Path, nargs="?", help="the .gguf file to load, in place of the one used last")
    parser.add_argument("--terminal", action="store_true", help="chat in this terminal instead of a window")
    parser.add_argument("--home", type=Path, help="keep chats, settings and models below this folder")
    parser.add_argument("--list-settings", action="store_true", help="print what can be set, and end")
    parser.add_argument("--version", action=_ShowVersion, help="print the version, and end")
    return parser.parse_args(arguments)


class _ShowVersion(argparse.Action):
    """Looks the version up only when it is asked for, for that takes time."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_arguments: object) -> None:
        from importlib.metadata import version

        print(f"Fireside {version('fireside')}")
        parser.exit()


def _problem_with(model: Path) -> str:
    """Why ``model`` cannot be opened, and what can instead; "" where it is a file."""
    try:
        mode = model.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return f"{model} is not there: give the path of a .gguf file."
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return f"{model} cannot be opened ({reason}): give the path of a .gguf file that you may read."
    if stat.S_ISREG(mode):
        return ""
    if not stat.S_ISDIR(mode):
        return f"{model} is no file: give the path of a .gguf file."
    try:
        found = min((each.name for each in model.iterdir() if each.suffix.lower() == ".gguf"), default="")
    except OSError:
        found = ""
    if found:
        return f"{model} is a folder: give the path of a file in it, for example {model / found}."
    return f"{model} is a folder without models: give the path of a .gguf file."


def _run_terminal(paths: AppPaths, model: Path | None) -> int:
    from app.library.starter import find_starter
    from engine.__main__ import main as run_engine

    model = model or find_starter(paths.models)
    if model is None:
        print(
            f"There is no model yet: name one, or put the starter model into {paths.models} "
            "with `python3 installers/source.py run`.",
            file=sys.stderr,
        )
        return 2
    return run_engine(["chat", str(model)])


def _choose_language(paths: AppPaths) -> None:
    """Before the modules that speak are imported: their tables of texts are made in the language."""
    from PySide6.QtCore import QLocale

    from app import translation

    code = translation.chosen_language(paths.settings_file, QLocale.system().uiLanguages())
    translation.use(translation.load_language(code))


def _has_display() -> bool:
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


if __name__ == "__main__":
    sys.exit(main())

"""The system libraries that Qt needs on Linux: find what is absent, name its Debian packages, install as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from source_environment import VENV
from source_report import Report, SetupError

# Library file to Debian package; ``ldd`` on a fresh Debian 12 with PySide6 6.11.3.
DEBIAN_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libgl1",
    "libOpenGL.so.0": "libopengl0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
    "libzstd.so.1": "libzstd1",
}
FONT_PACKAGE = "fonts-dejavu-core"
QT_FILES = (
    "lib/libQt6Gui.so.6",
    "lib/libQt6Widgets.so.6",
    "lib/libQt6Network.so.6",
    "lib/libQt6Svg.so.6",
    "plugins/platforms/libqxcb.so",
    "plugins/platforms/libqoffscreen.so",
)


def ensure_qt_libraries(report: Report) -> None:
    """Check that Qt finds its system libraries and a font; as root on a Debian system, install what is absent.

    Raises SetupError that names the exact packages.
    """
    if not sys.platform.startswith("linux"):
        return
    report.step("Checking the system libraries of the window")
    libraries = missing_libraries()
    packages = packages_for(libraries, has_fonts=_has_fonts())
    if not libraries and not packages:
        report.line("all there")
        return
    unknown = [name for name in libraries if name not in DEBIAN_PACKAGES]
    if shutil.which("apt-get") is None:
        what = ", ".join(libraries) or "a font"
        raise SetupError(
            f"Qt needs {what}, absent here: install them with your system's package manager and try again."
        )
    install = f"apt-get install {' '.join(packages)}"
    if unknown:
        raise SetupError(
            f"Qt needs {', '.join(unknown)}, absent here: install what provides them ({install} brings the rest)."
        )
    if os.geteuid() != 0:
        raise SetupError(
            f"Qt needs system packages that are absent: run `sudo {install}` and then this command again."
        )
    report.line(f"installing {' '.join(packages)}")
    _apt_install(packages, install)
    if still := missing_libraries():
        raise SetupError(f"Qt still misses {', '.join(still)} after `{install}`: install what provides them.")


def missing_libraries() -> list[str]:
    """Names of the shared libraries that the loader does not find for Qt, sorted."""
    missing: set[str] = set()
    for qt in VENV.glob("lib/python*/site-packages/PySide6/Qt"):
        for name in QT_FILES:
            if not (qt / name).exists():
                continue
            done = subprocess.run(["ldd", str(qt / name)], capture_output=True, text=True, check=False)
            missing.update(line.split()[0] for line in done.stdout.splitlines() if "not found" in line)
    return sorted(missing)


def packages_for(libraries: list[str], *, has_fonts: bool) -> list[str]:
    """Debian packages that bring ``libraries``, and a font where there is none."""
    packages = {DEBIAN_PACKAGES[name] for name in libraries if name in DEBIAN_PACKAGES}
    if not has_fonts:
        packages.add(FONT_PACKAGE)
    return sorted(packages)


def _has_fonts() -> bool:
    folders = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".local/share/fonts")
    return any(next(folder.rglob("*.[to]tf"), None) is not None for folder in folders if folder.is_dir())


def _apt_install(packages: list[str], install: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SetupError(f"`{install}` failed ({reason}): run it by hand and then this command again.")

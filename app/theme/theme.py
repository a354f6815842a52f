"""The theme in force: palette, base size and zoom, and the one place that hands them to Qt.

It follows the system's colour scheme while the setting says so. It does not know any widget of the app.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QIcon, QPalette
from PySide6.QtWidgets import QApplication

from app.settings import Settings
from app.theme.icons import ICONS, icon
from app.theme.stylesheet import build_stylesheet
from app.theme.tokens import DARK, LIGHT, Palette

NOMINAL_PX = 14
MIN_ZOOM, MAX_ZOOM = 0.8, 2.0
_ZOOM_STEPS = (0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75, 2.0)


class Theme(QObject):
    """The palette and the scale that all widgets draw with.

    Attributes:
        palette: the colours in force.
        zoom: the person's own scale, 1 is as designed.

    Signals:
        about_to_change: the next thing is a change; drop what is cheaper to make anew than to restyle.
        changed: palette or zoom are different now; restyle.
    """

    about_to_change = Signal()
    changed = Signal()

    def __init__(self, app: QApplication, settings: Settings) -> None:
        super().__init__(app)
        self._app = app
        self._settings = settings
        self._system_px = _system_font_px()
        self.palette: Palette = LIGHT
        self._colours: dict[str, QColor] = {}  # of the palette, as far as they were asked for
        self.zoom = 1.0
        if app.style().name() != "fusion":
            app.setStyle("Fusion")  # the one style that looks the same on every system
        app.setWindowIcon(QIcon(str(ICONS / "fireside.svg")))
        app.styleHints().colorSchemeChanged.connect(self._on_system_scheme)
        settings.changed.connect(self._on_setting)
        self.refresh()

    def refresh(self) -> None:
        """Read the settings again and restyle everything."""
        self.about_to_change.emit()
        choice = str(self._settings.value("theme"))
        scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}.get(choice)
        hints = self._app.styleHints()
        hints.setColorScheme(scheme or Qt.ColorScheme.Unknown)
        is_dark = (scheme or hints.colorScheme()) == Qt.ColorScheme.Dark
        self.palette = DARK if is_dark else LIGHT
        self._colours = {}
        self.zoom = min(max(float(self._settings.value("zoom")), MIN_ZOOM), MAX_ZOOM)
        self._app.setPalette(_qt_palette(self.palette))
        self._app.setFont(self.font())
        self._app.setStyleSheet(build_stylesheet(self.palette, self.px))
        self.changed.emit()

    def zoom_in(self) -> None:
        self._set_zoom(next((step for step in _ZOOM_STEPS if step > self.zoom + 0.01), MAX_ZOOM))

    def zoom_out(self) -> None:
        self._set_zoom(next((step for step in reversed(_ZOOM_STEPS) if step < self.zoom - 0.01), MIN_ZOOM))

    def zoom_reset(self) -> None:
        self._set_zoom(1.0)

    def px(self, nominal: float) -> int:
        """Logical pixels for a length of the design, which is drawn for a text of 14 px."""
        return round(nominal * self.zoom * self._system_px / NOMINAL_PX)

    def font(self, nominal_px: float = NOMINAL_PX, *, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """The system's interface font at a size of the design."""
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
        font.setPixelSize(max(6, self.px(nominal_px)))
        font.setWeight(weight)
        return font

    def mono_font(self, nominal_px: float = 13) -> QFont:
        """The system's monospace font at a size of the design."""
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(max(6, self.px(nominal_px)))
        font.setStyleHint(QFont.StyleHint.Monospace)
        return font

    def colour(self, token: str) -> QColor:
        """The colour of a token of the palette; raises AttributeError for an unknown one."""
        colour = self._colours.get(token)
        if colour is None:
            colour = self._colours[token] = QColor(getattr(self.palette, token))
        return colour

    def icon(self, name: str, token: str = "muted", nominal_px: float = 16) -> QIcon:
        """An icon of the set in a colour of the palette."""
        return icon(name, getattr(self.palette, token), self.px(nominal_px))

    def _set_zoom(self, zoom: float) -> None:
        self._settings.set("zoom", zoom)

    def _on_setting(self, key: str) -> None:
        if key in {"theme", "zoom"}:
            self.refresh()

    def _on_system_scheme(self, _scheme: Qt.ColorScheme) -> None:
        if self._settings.value("theme") == "system":
            is_dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
            if is_dark != self.palette.is_dark:
                self.refresh()


def apply_theme(app: QApplication, settings: Settings) -> Theme:
    """Dress the application; a second call gives the theme that is in force."""
    existing = app.findChild(Theme)
    return existing if isinstance(existing, Theme) else Theme(app, settings)


def _system_font_px() -> int:
    # A text smaller than the design's is a system without a desktop's settings, or one that reads badly.
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    return min(max(QFontInfo(font).pixelSize(), NOMINAL_PX), 28)


def _qt_palette(tokens: Palette) -> QPalette:
    roles = {
        QPalette.ColorRole.Window: tokens.background,
        QPalette.ColorRole.WindowText: tokens.text,
        QPalette.ColorRole.Base: tokens.card,
        QPalette.ColorRole.AlternateBase: tokens.code,
        QPalette.ColorRole.Text: tokens.text,
        QPalette.ColorRole.PlaceholderText: tokens.muted,
        QPalette.ColorRole.Button: tokens.card,
        QPalette.ColorRole.ButtonText: tokens.text,
        QPalette.ColorRole.ToolTipBase: tokens.card,
        QPalette.ColorRole.ToolTipText: tokens.text,
        QPalette.ColorRole.Highlight: tokens.accent,
        QPalette.ColorRole.HighlightedText: tokens.on_accent,
        QPalette.ColorRole.Link: tokens.accent,
        QPalette.ColorRole.LinkVisited: tokens.accent,
        QPalette.ColorRole.Accent: tokens.accent,
        QPalette.ColorRole.Light: tokens.card,
        QPalette.ColorRole.Mid: tokens.hairline,
        QPalette.ColorRole.Dark: tokens.hairline,
    }
    palette = QPalette()
    for role, colour in roles.items():
        palette.setColor(role, QColor(colour))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor(tokens.muted))
    return palette

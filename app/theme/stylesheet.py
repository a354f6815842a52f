"""The one stylesheet, built from a palette and a scale. Widgets opt in by object name or the property ``look``."""

from __future__ import annotations

from collections.abc import Callable

from app.theme.tokens import Palette

_CELL_MARGIN_PX = 3  # what Qt's style adds to the padding of a table's cell, and not to that of its header


def build_stylesheet(palette: Palette, px: Callable[[float], int]) -> str:
    """The application's stylesheet; ``px`` turns a length of the design into logical pixels."""
    parts = (_surfaces, _text, _buttons, _fields, _menus, _scroll_bars)
    return "\n".join(part(palette, px) for part in parts)


def _surfaces(p: Palette, px: Callable[[float], int]) -> str:
    return f"""
    QMainWindow, QDialog, #pages, #chatPage, #trashPage, #preferencesPage,
    #preferencesPage QScrollArea > QWidget > QWidget {{
        background: {p.background}; }}
    #sidebar {{ background: {p.sidebar}; border-right: 1px solid {p.hairline}; }}
    #optionsPanel, #optionsPanel QScrollArea > QWidget > QWidget {{ background: {p.sidebar}; }}
    #optionsPanel {{ border-left: 1px solid {p.hairline}; }}
    #bar {{ background: {p.background}; border-bottom: 1px solid {p.hairline}; }}
    #findBar {{ background: {p.background}; border: none; border-bottom: 1px solid {p.hairline}; }}
    #transcript, #transcript > QWidget > QWidget {{ background: {p.background}; border: none; }}
    #composer, QFrame[look="card"] {{
        background: {p.card}; border: 1px solid {p.hairline}; border-radius: {px(14)}px; }}
    #composer[active="true"] {{ border-color: {p.outline}; }}
    QFrame[look="bubble"] {{
        background: {p.own_message};
        border-radius: {px(14)}px; border-bottom-right-radius: {px(2)}px; }}
    QFrame[look="code"] {{ background: {p.code}; border: 1px solid {p.hairline}; border-radius: {px(10)}px; }}
    QFrame[look="code-head"] {{ border: none; border-bottom: 1px solid {p.hairline}; }}
    QFrame[look="notice"] {{
        background: {p.accent_wash}; border: 1px solid {p.hairline}; border-radius: {px(10)}px; }}
    QFrame[look="field-row"] {{ background: transparent; border: none; border-bottom: 1px solid {p.hairline}; }}
    QFrame[look="chip"] {{ background: {p.background}; border: 1px solid {p.hairline};
        border-radius: {px(8)}px; }}
    QFrame[look="chip"][found="found"], QFrame[look="chip"][found="current"] {{ background: {p.found}; }}
    QFrame[look="chip"][found="found"] QPushButton, QFrame[look="chip"][found="current"] QPushButton {{
        color: {p.text}; }}
    QFrame[look="chip"][found="current"] {{ border: 1px solid {p.accent}; }}
    QFrame[look="banner"] {{
        background: {p.accent_wash}; border: none; border-bottom: 1px solid {p.hairline}; }}
    QFrame[look="line"] {{ background: {p.hairline}; border: none; max-height: 1px; min-height: 1px; }}
    #conversationList, #trashList, #paletteList {{ background: transparent; border: none; outline: none; }}
    QTextEdit, QPlainTextEdit, QTextBrowser {{ background: transparent; border: none; color: {p.text};
        placeholder-text-color: {p.muted};
        selection-background-color: {p.accent}; selection-color: {p.on_accent}; }}
    QScrollArea[look="plain"], QScrollArea[look="plain"] > QWidget > QWidget {{ background: transparent; }}
    QTableView {{ background: transparent; color: {p.text}; border: none; outline: none;
        selection-background-color: {p.accent_wash}; selection-color: {p.text}; }}
    QTableView::item {{ border-bottom: 1px solid {p.hairline}; padding: 0 {px(8)}px; }}
    QTableView::item:selected {{ background: {p.accent_wash}; color: {p.text}; }}
    QHeaderView {{ background: transparent; border: none; }}
    QHeaderView::section {{ background: transparent; color: {p.muted}; border: none; font-weight: 600;
        font-size: {px(12)}px; border-bottom: 1px solid {p.hairline};
        padding: {px(3)}px {px(8) + _CELL_MARGIN_PX}px; }}
    QAbstractScrollArea::corner {{ background: transparent; border: none; }}
    QScrollArea {{ border: none; background: transparent; }}
    #answer:focus, #ownMessage:focus {{ border: 1px solid {p.accent}; border-radius: {px(10)}px; }}
    #answer, #ownMessage {{ border: 1px solid transparent; background: transparent; }}
    #palette {{ background: {p.card}; border: 1px solid {p.outline}; border-radius: {px(12)}px; }}
    QToolTip {{ background: {p.card}; color: {p.text}; border: 1px solid {p.hairline}; padding: {px(4)}px; }}
    """


def _text(p: Palette, px: Callable[[float], int]) -> str:
    return f"""
    QLabel {{ color: {p.text}; background: transparent; }}
    QLabel[look="muted"] {{ color: {p.muted}; font-size: {px(12)}px; }}
    QLabel[look="help"] {{ color: {p.muted}; font-size: {px(12.5)}px; }}
    QLabel[look="caution"] {{ color: {p.caution}; font-size: {px(13)}px; }}
    QLabel[look="good"] {{ color: {p.good}; }}
    QLabel[look="heading"] {{ color: {p.muted}; font-size: {px(12)}px; font-weight: 600; }}
    QLabel[look="badge"] {{ color: {p.accent}; background: {p.accent_wash}; border-radius: {px(6)}px;
        padding: {px(1)}px {px(7)}px; font-size: {px(12)}px; }}
    QLabel[look="strong"] {{ font-weight: 600; }}
    QLabel[look="section"] {{ font-weight: 600; font-size: {px(15)}px; }}
    QLabel[look="title"] {{ font-weight: 600; font-size: {px(20)}px; }}
    """


def _buttons(p: Palette, px: Callable[[float], int]) -> str:
    return f"""
    QPushButton, QToolButton {{ color: {p.text}; background: {p.card}; border: 1px solid {p.hairline};
        border-radius: {px(8)}px; padding: {px(6)}px {px(12)}px; outline: none; }}
    QPushButton:hover, QToolButton:hover {{ background: {p.hover}; }}
    QPushButton:focus, QToolButton:focus {{ border: 2px solid {p.accent};
        padding: {px(6) - 1}px {px(12) - 1}px; }}
    QPushButton:disabled {{ color: {p.muted}; }}
    QPushButton::menu-indicator, QToolButton::menu-indicator {{ image: none; width: 0; }}

    QPushButton[look="primary"] {{ color: {p.on_accent}; background: {p.accent}; border-color: {p.accent};
        font-weight: 600; }}
    QPushButton[look="primary"]:hover {{ background: {p.accent_hover}; border-color: {p.accent_hover}; }}
    QPushButton[look="primary"]:focus {{ border: 2px solid {p.text}; }}
    QPushButton[look="primary"]:disabled {{ color: {p.muted}; background: {p.hover};
        border-color: {p.hairline}; }}

    QPushButton[look="text"], QToolButton[look="text"] {{ color: {p.muted}; background: transparent;
        border: 1px solid transparent; padding: {px(2)}px; border-radius: {px(5)}px;
        font-size: {px(12)}px; }}
    QPushButton[look="text"]:hover, QToolButton[look="text"]:hover {{ color: {p.text}; }}
    QPushButton[look="text"]:focus, QToolButton[look="text"]:focus {{ color: {p.text};
        border: 1px solid {p.accent}; }}
    QPushButton[look="text"]:disabled {{ color: {p.muted}; background: transparent; }}

    QPushButton[look="icon"] {{ background: transparent; border: 1px solid transparent; padding: {px(2)}px;
        border-radius: {px(6)}px; }}
    QPushButton[look="icon"]:hover {{ background: {p.hover}; }}
    QPushButton[look="icon"]:focus {{ border: 1px solid {p.accent}; }}

    QPushButton[look="fold"] {{ color: {p.muted}; background: transparent; border: 1px solid transparent;
        padding: {px(2)}px {px(6)}px {px(2)}px 0; margin-left: -{px(5)}px;
        border-radius: {px(6)}px; font-size: {px(13)}px; }}
    QPushButton[look="fold"]:hover {{ color: {p.text}; }}
    QPushButton[look="fold"]:focus {{ border: 1px solid {p.accent}; }}

    QPushButton[look="row"] {{ background: transparent; border: 1px solid transparent; text-align: left;
        padding: {px(8)}px {px(10)}px; }}
    QPushButton[look="row"]:hover {{ background: {p.hover}; }}
    QPushButton[look="row"]:checked {{ background: {p.accent_wash}; font-weight: 600; }}
    QPushButton[look="row"]:focus {{ border: 1px solid {p.accent}; }}

    QPushButton[look="choice-small"] {{ text-align: left; padding: {px(5)}px {px(10)}px; }}

    QPushButton[look="choice"] {{ text-align: left; padding: {px(10)}px {px(14)}px; }}

    QPushButton[look="segment"] {{ border-radius: 0; margin-left: -1px; }}
    QPushButton[look="segment"][place="first"] {{ margin-left: 0;
        border-top-left-radius: {px(8)}px; border-bottom-left-radius: {px(8)}px; }}
    QPushButton[look="segment"][place="last"] {{
        border-top-right-radius: {px(8)}px; border-bottom-right-radius: {px(8)}px; }}
    QPushButton[look="segment"][place="alone"] {{ margin-left: 0; border-radius: {px(8)}px; }}
    QPushButton[look="segment"]:checked {{ background: {p.accent_wash}; font-weight: 600; }}
    QPushButton[look="segment"]:focus {{ border: 1px solid {p.accent}; margin-left: 0;
        padding: {px(6)}px {px(12)}px {px(6)}px {px(12) - 1}px; }}
    QPushButton[look="segment"][place="first"]:focus,
    QPushButton[look="segment"][place="alone"]:focus {{ padding-left: {px(12)}px; }}
    """


def _fields(p: Palette, px: Callable[[float], int]) -> str:
    return f"""
    QLineEdit, QAbstractSpinBox, QPlainTextEdit[look="field"] {{ color: {p.text}; background: {p.card};
        border: 1px solid {p.hairline}; border-radius: {px(8)}px; padding: {px(6)}px {px(10)}px;
        placeholder-text-color: {p.muted};
        selection-background-color: {p.accent}; selection-color: {p.on_accent}; }}
    QLineEdit:focus, QAbstractSpinBox:focus, QPlainTextEdit[look="field"]:focus {{
        border: 1px solid {p.accent}; }}
    QAbstractSpinBox {{ padding: 0; }}
    QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ width: 0; height: 0; border: none; }}
    QAbstractSpinBox::up-arrow, QAbstractSpinBox::down-arrow {{ image: none; width: 0; height: 0; }}
    QAbstractSpinBox QLineEdit, QAbstractSpinBox QLineEdit:focus {{ border: none; background: transparent;
        padding: 0 {px(10)}px; }}
    QLineEdit[look="rename"] {{ padding: 0 {px(6)}px; border-radius: {px(6)}px; }}
    """


def _menus(p: Palette, px: Callable[[float], int]) -> str:
    return f"""
    QMenuBar {{ background: {p.sidebar}; color: {p.text}; border-bottom: 1px solid {p.hairline};
        padding: {px(2)}px 0; font-size: {px(13)}px; }}
    QMenuBar::item {{ background: transparent; padding: {px(4)}px {px(9)}px; border-radius: {px(6)}px; }}
    QMenuBar::item:selected {{ background: {p.hover}; }}
    QMenu {{ background: {p.card}; color: {p.text}; border: 1px solid {p.hairline}; padding: {px(4)}px; }}
    QMenu::item {{ padding: {px(6)}px {px(28)}px {px(6)}px {px(12)}px; border-radius: {px(6)}px;
        background: transparent; }}
    QMenu::item:selected {{ background: {p.accent_wash}; color: {p.text}; }}
    QMenu::item:disabled {{ color: {p.muted}; }}
    QMenu::icon {{ padding-left: {px(10)}px; }}
    QMenu::separator {{ height: 1px; background: {p.hairline}; margin: {px(4)}px {px(8)}px; }}
    """


def _scroll_bars(p: Palette, px: Callable[[float], int]) -> str:
    return f"""
    QScrollBar {{ background: transparent; border: none; }}
    QScrollBar:vertical {{ width: {px(10)}px; }}
    QScrollBar:horizontal {{ height: {px(10)}px; }}
    QScrollBar::handle {{ background: {p.track}; border-radius: {px(3)}px; margin: {px(2)}px; }}
    QScrollBar::handle:vertical {{ min-height: {px(36)}px; }}
    QScrollBar::handle:horizontal {{ min-width: {px(36)}px; }}
    QScrollBar::handle:hover {{ background: {p.outline}; }}
    QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {{
        background: transparent; border: none; width: 0; height: 0; }}
    """

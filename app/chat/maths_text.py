"""Formulas inside a ``QTextDocument``: an image on the text's baseline, or the source while there is none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from PySide6.QtCore import QPointF, QSize, Qt, QUrl
from PySide6.QtGui import (
    QFontMetricsF,
    QImage,
    QPainter,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFragment,
    QTextImageFormat,
)
from PySide6.QtWidgets import QApplication

from app.chat.blocks import displayable
from app.chat.maths import Formula, FormulaImage, FormulaSetter
from app.theme import Theme

SOURCE = int(QTextFormat.Property.UserProperty) + 3
"""Character property: the LaTeX with its delimiters; what is copied for the formula."""
_IS_DISPLAY = int(QTextFormat.Property.UserProperty) + 4

_numbers = itertools.count()


def shared_setter() -> FormulaSetter:
    """The application's one setter of formulas."""
    application = QApplication.instance()
    assert application is not None
    found = application.findChild(FormulaSetter)
    if isinstance(found, FormulaSetter):
        return found
    setter = FormulaSetter(application)
    application.aboutToQuit.connect(setter.close)
    return setter


def write_formula(
    cursor: QTextCursor, source: str, *, is_display: bool, outer: QTextCharFormat, theme: Theme
) -> None:
    """Write a formula at ``cursor``, in the colour and size of ``outer``."""
    plain = QTextCharFormat(outer)
    plain.setProperty(SOURCE, f"$${source.strip()}$$" if is_display else f"${source.strip()}$")
    plain.setProperty(_IS_DISPLAY, is_display)
    image = shared_setter().image(_formula(source, is_display, outer, theme))
    if image is None:
        mono = theme.mono_font()
        plain.setFontFamilies(mono.families() or [mono.family()])
        cursor.insertText(displayable(source.strip()), plain)
    else:
        cursor.insertImage(_merged(plain, _picture(cursor.document(), image, plain)))


def replace_formula(document: QTextDocument, formula: Formula, theme: Theme) -> list[tuple[int, int]]:
    """Put the image of ``formula`` where its source stands; gives position and growth of each replacement."""
    image = shared_setter().image(formula)
    changes: list[tuple[int, int]] = []
    if image is None:
        return changes
    places: list[tuple[int, int, QTextCharFormat]] = []
    block = document.begin()
    while block.isValid():
        for fragment in fragments(block):
            text_format = fragment.charFormat()
            if text_format.isImageFormat() or not text_format.hasProperty(SOURCE):
                continue
            is_display = bool(text_format.property(_IS_DISPLAY))
            length = 2 if is_display else 1  # of a delimiter; the formula itself may end with a dollar
            source = str(text_format.property(SOURCE))[length:-length]
            if _formula(source, is_display, text_format, theme) == formula:
                places.append((fragment.position(), fragment.length(), text_format))
        block = block.next()
    pictures: dict[str, QTextImageFormat] = {}  # by the font around them
    cursor = QTextCursor(document)
    cursor.beginEditBlock()  # laid out once, however many there are
    for position, length, text_format in reversed(places):
        cursor.setPosition(position)
        cursor.setPosition(position + length, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        if (picture := pictures.get(font := text_format.font().key())) is None:
            picture = pictures[font] = _picture(document, image, text_format)
        cursor.insertImage(_merged(text_format, picture))
        changes.append((position, 1 - length))
    cursor.endEditBlock()
    return changes


def fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    """The pieces of a block that have one format each."""
    iterator = block.begin()
    while not iterator.atEnd():
        yield iterator.fragment()
        iterator += 1


def _formula(source: str, is_display: bool, text_format: QTextCharFormat, theme: Theme) -> Formula:
    pixel_size = float(text_format.font().pixelSize())
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    ratio = application.devicePixelRatio()  # of the finest screen, for the window may be moved there
    colour = text_format.foreground().color().name()
    return Formula(source.strip(), is_display, pixel_size * 1.12 if pixel_size > 0 else theme.px(15), colour, ratio)


def _merged(text_format: QTextCharFormat, picture: QTextImageFormat) -> QTextImageFormat:
    """``picture`` with the source, links and colours of the text that it stands for."""
    made = QTextImageFormat()
    made.merge(text_format)
    made.merge(picture)
    return made


def _picture(document: QTextDocument, image: FormulaImage, text_format: QTextCharFormat) -> QTextImageFormat:
    """Keep an image in ``document``; its format lets its baseline be that of text in ``text_format``.

    Qt puts an inline image by its middle, or so that it reaches as far below the baseline as the font does; the
    image is padded to fit one of the two.
    """
    descent = QFontMetricsF(text_format.font()).descent()
    is_shallow = image.depth <= descent
    above = image.ascent if is_shallow else max(image.ascent, image.depth)
    below = descent if is_shallow else above
    canvas = _padded(image, above, above + below)
    name = f"formula:{next(_numbers)}"
    document.addResource(int(QTextDocument.ResourceType.ImageResource.value), QUrl(name), canvas)
    place = QTextImageFormat()
    place.setName(name)
    place.setWidth(canvas.width() / canvas.devicePixelRatio())
    place.setHeight(canvas.height() / canvas.devicePixelRatio())
    alignment = QTextCharFormat.VerticalAlignment
    place.setVerticalAlignment(alignment.AlignBaseline if is_shallow else alignment.AlignMiddle)
    return place


def _padded(image: FormulaImage, above: float, height: float) -> QImage:
    ratio = image.image.devicePixelRatio()
    canvas = QImage(
        QSize(image.image.width(), max(1, round(height * ratio))), QImage.Format.Format_ARGB32_Premultiplied
    )
    canvas.setDevicePixelRatio(ratio)
    canvas.fill(Qt.GlobalColor.transparent)
    painter = QPainter(canvas)
    painter.drawImage(QPointF(0, above - image.ascent), image.image)
    painter.end()
    return canvas

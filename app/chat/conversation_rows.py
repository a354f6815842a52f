"""The sidebar's rows as plain data: pinned conversations, folders, and the others under dated headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter

from PySide6.QtCore import QLocale

from app.storage.records import ConversationRecord, FolderRecord
from app.translation import tr
from engine.plain_data import dataclass


@dataclass(frozen=True)
class Shelf:
    """A folder as the list shows it."""

    record: FolderRecord
    is_folded: bool


@dataclass(frozen=True)
class Row:
    """A heading, a folder (with ``shelf``), or a conversation (with ``record``).

    Attributes:
        key: says which row it is, whatever it shows: the conversation's id, and for others what no id can be.
        folder_id: of a folder, or of the folder that the conversation is shown in.
        num_inside: conversations shown in the folder.
    """

    key: str
    heading: str = ""
    record: ConversationRecord | None = None
    shelf: Shelf | None = None
    folder_id: str = ""
    num_inside: int = 0


def folder_key(folder_id: str) -> str:
    """The key of a folder's row."""
    return f"\n{folder_id}"


def grouped(
    records: Sequence[ConversationRecord], shelves: Sequence[Shelf], now: datetime, old: Mapping[str, Row]
) -> list[Row]:
    """The rows, from the top; those that show the same as the ``old`` row of their key are that very object."""
    rows: list[Row] = []
    ordered = sorted(records, key=attrgetter("updated_at"), reverse=True)
    if pinned := [record for record in records if record.is_pinned]:
        rows.append(_same_or(old, _heading(tr("Pinned"))))
        rows.extend(_conversations(pinned, "", old))
    if shelves:
        rows.append(_same_or(old, _heading(tr("Folders"))))
    lying: dict[str | None, list[ConversationRecord]] = {shelf.record.id: [] for shelf in shelves}
    outside: list[ConversationRecord] = []
    for record in ordered:
        if not record.is_pinned:
            lying.get(record.folder_id, outside).append(record)
    for shelf in shelves:
        folder_id, inside = shelf.record.id, lying[shelf.record.id]
        row = Row(folder_key(folder_id), shelf=shelf, folder_id=folder_id, num_inside=len(inside))
        rows.append(_same_or(old, row))
        if not shelf.is_folded:
            rows.extend(_conversations(inside, folder_id, old))
    first = 0
    while first < len(outside):
        heading = group_of(outside[first].updated_at, now)
        end = _end_of_group(outside, first, heading, now)
        rows.append(_same_or(old, _heading(heading)))
        rows.extend(_conversations(outside[first:end], "", old))
        first = end
    return rows


def _heading(text: str) -> Row:
    return Row(f"\n\n{text}", heading=text)


def _same_or(old: Mapping[str, Row], row: Row) -> Row:
    was = old.get(row.key)
    return was if was is not None and was == row else row


def _conversations(records: Sequence[ConversationRecord], folder_id: str, old: Mapping[str, Row]) -> list[Row]:
    return [
        was
        if (was := old.get(record.id)) is not None and was.record is record and was.folder_id == folder_id
        else Row(record.id, record=record, folder_id=folder_id)
        for record in records
    ]


def _end_of_group(records: Sequence[ConversationRecord], first: int, heading: str, now: datetime) -> int:
    """Where another heading begins: the records are in order, so that few dates need to be looked at."""
    low, high = first + 1, len(records)
    while low < high:
        middle = (low + high) // 2
        if group_of(records[middle].updated_at, now) == heading:
            low = middle + 1
        else:
            high = middle
    return low


def group_of(updated_at: float, now: datetime) -> str:
    """The heading a conversation stands under."""
    day = datetime.fromtimestamp(updated_at).date()
    age = (now.date() - day).days
    if age <= 0:
        return tr("Today")
    if age == 1:
        return tr("Yesterday")
    if age <= 7:
        return tr("Last week")
    if age <= 30:
        return tr("Last month")
    month = QLocale().standaloneMonthName(day.month, QLocale.FormatType.LongFormat)
    return month if day.year == now.year else f"{month} {day.year}"


def when(updated_at: float, now: datetime) -> str:
    """The short time beside a title: "now", "9:12", "Mon", "12 Nov"."""
    moment = datetime.fromtimestamp(updated_at)
    if timedelta(0) <= now - moment < timedelta(minutes=1):
        return tr("now")
    age = (now.date() - moment.date()).days
    if age <= 0:
        return f"{moment.hour}:{moment.minute:02d}"
    if age <= 7:
        return QLocale().dayName(moment.isoweekday(), QLocale.FormatType.ShortFormat)
    month = QLocale().monthName(moment.month, QLocale.FormatType.ShortFormat)
    if moment.year != now.year:
        return f"{month} {moment.year}"
    return tr("{day} {month}", day=moment.day, month=month)

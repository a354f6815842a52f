"""Commands and events about what is kept of conversations on the disk; ``protocol`` hands them on."""

from __future__ import annotations

from engine.plain_data import dataclass


@dataclass(frozen=True)
class ForgetConversation:
    """Delete what is kept of a conversation on the disk and in the engine's history.

    Its requests go on, and nothing of them is kept when they end; programs that share the snapshot folder keep
    nothing of it either. A request that comes after this begins it anew.
    """

    conversation_id: str


@dataclass(frozen=True)
class SetSnapshotQuota:
    """Keep conversations on the disk up to so many bytes; 0 keeps none and deletes what there is."""

    quota_bytes: int


@dataclass(frozen=True)
class ClearSnapshots:
    """Delete what is kept of all conversations on the disk."""


@dataclass(frozen=True)
class AskSnapshotStorage:
    """Find out what the conversations on the disk take; answered by ``SnapshotStorage``."""


@dataclass(frozen=True)
class SnapshotStorage:
    """Answer to ``AskSnapshotStorage``; a quota of 0 keeps nothing."""

    num_bytes: int
    num_conversations: int
    quota_bytes: int

"""What the files of a repository are: versions of a model with their shards, companions, and what must stay away.

Knows names and sizes. File names of the hub are untrusted: only those that stay inside a folder on every system
become files here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePosixPath

from engine.gguf.quantizations import Quality, quality_of, quantization_in
from engine.gguf.shards import UNFINISHED, ShardName, raw_part_of, shard_of

MAX_NAME_BYTES = 200  # of one folder or file: leaves room for ``.part`` within the 255 that systems allow
MAX_PATH_LENGTH = 400
MAX_MISSING = 1000  # a name may claim 99,999 shards
_RESERVED = re.compile(r"(CON|PRN|AUX|NUL|COM[0-9¹²³]|LPT[0-9¹²³]|CONIN\$|CONOUT\$) *(\..*)?\Z", re.I | re.S)
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"\\|?*\ud800-\udfff]')
_MISLEADING = re.compile(
    "[\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)  # unseen, or they turn the rest around
_REPOSITORY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.A)
_NO_MODEL = re.compile(r"imatrix|^\.", re.I)


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository.

    Attributes:
        path: inside the repository, with slashes.
        size: bytes; 0 where the hub does not say.
        sha256: of the content, in hexadecimal; "" for small files, which the hub keeps without.
    """

    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True)
class Version:
    """One model file, or one set of shards, of a repository.

    Attributes:
        label: what tells it from its neighbours: the quantization, else the file's name.
        quantization: in capitals; None where the name does not tell.
        files: in the order of the shards.
        missing: numbers of shards that the repository lacks, the first thousand of them.
        num_shards: 1 for a single file.
    """

    label: str
    quantization: str | None
    files: tuple[RemoteFile, ...]
    missing: tuple[int, ...] = ()
    num_shards: int = 1

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def missing_words(self) -> str:
        """Which shards the repository lacks."""
        numbers = ", ".join(map(str, self.missing[:20])) + (" ..." if len(self.missing) > 20 else "")
        return f"shard{'s' if len(self.missing) > 1 else ''} {numbers} of {self.num_shards}"

    @property
    def quality(self) -> Quality:
        """How much of the model is kept."""
        return quality_of(self.quantization)


@dataclass(frozen=True)
class FileGroups:
    """The files of a repository, sorted out.

    Attributes:
        versions: of the model, smallest first.
        companions: image encoders (``mmproj``) that accompany it.
        refused: names that cannot be stored or used, each with the reason.
    """

    versions: tuple[Version, ...]
    companions: tuple[RemoteFile, ...]
    refused: tuple[tuple[str, str], ...]


def is_repository(name: str) -> bool:
    """Whether this is a repository's full name, ``owner/model``."""
    return _REPOSITORY.fullmatch(name) is not None and ".." not in name


def why_unsafe(path: str) -> str:
    """Why a file of that name cannot be stored, in words; "" when it can on every system."""
    parts = path.split("/")
    if _FORBIDDEN.search(path):
        return "the name has characters that files cannot have"
    if _MISLEADING.search(path):
        return "the name has characters that make it look like another one"
    if not path or len(path) > MAX_PATH_LENGTH or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        return "the name is empty or too long"
    if any(part in {"", ".", ".."} for part in parts) or PurePosixPath(path).is_absolute():
        return "the name points out of the models folder"
    if any(part.endswith((".", " ")) or part.startswith(" ") for part in parts):
        return "the name begins or ends with a space or ends with a dot"
    if any(_RESERVED.match(part) for part in parts):
        return "the name is reserved by Windows"
    return ""


def printable(text: str) -> str:
    """The text with question marks for halves of characters, which nothing can write."""
    return text.encode("utf-8", "replace").decode()


def is_companion(path: str) -> bool:
    """Whether a file of this name is an image encoder, not a model."""
    return "mmproj" in path.rsplit("/", 1)[-1].lower()


def group_files(files: Iterable[RemoteFile]) -> FileGroups:
    """Sort out a repository's files; what is neither model nor companion is left out."""
    sets: dict[tuple[str, str, int, str], dict[int, RemoteFile]] = {}
    companions, refused = [], []
    for file in files:
        folder, _, name = file.path.rpartition("/")
        part = raw_part_of(name)
        if not name.lower().endswith(".gguf") and part is None:
            continue
        if reason := why_unsafe(file.path):
            refused.append((printable(file.path), reason))
        elif part is not None:
            refused.append((file.path, "it is a part of a file that was cut up and must be joined by hand"))
        elif is_companion(name):
            companions.append(file)
        elif UNFINISHED.search(name) or any(part.startswith(".") for part in folder.split("/")):
            refused.append((file.path, "the name is one of hidden or unfinished files, which are passed over"))
        elif not _NO_MODEL.search(name):
            shard = shard_of(name) or ShardName(name[: -len(".gguf")], 1, 1, name[-len(".gguf") :])
            sets.setdefault((folder, shard.prefix, shard.count, shard.suffix), {})[shard.number] = file
    versions = [_version(prefix, count, shards) for (_, prefix, count, _), shards in sets.items()]
    versions.sort(key=lambda version: (version.size, version.label))
    for more_exact in (_file_label, _set_label, _path_label):  # until no two are called the same
        counts = Counter(version.label for version in versions)
        versions = [
            version if counts[version.label] == 1 else replace(version, label=more_exact(version.files[0].path))
            for version in versions
        ]
    return FileGroups(tuple(versions), tuple(companions), tuple(refused))


def _version(prefix: str, count: int, shards: dict[int, RemoteFile]) -> Version:
    files = tuple(shards[number] for number in sorted(shards))
    quantization = quantization_in(files[0].path)
    missing = (number for number in range(1, count + 1) if number not in shards)
    return Version(quantization or prefix, quantization, files, tuple(islice(missing, MAX_MISSING)), count)


def _file_label(path: str) -> str:
    """Two versions of one quantization are told apart by their files' names,"""
    shard = shard_of(path.rpartition("/")[2])
    return shard.prefix if shard is not None else _path_label(path)


def _set_label(path: str) -> str:
    """those of one name by their folders,"""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{_file_label(name)}"


def _path_label(path: str) -> str:
    """those of one folder by how many files they have."""
    return path.removesuffix(".gguf")

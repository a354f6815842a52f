"""Bytes as people read them."""

_UNITS = (("GB", 1e9, 1), ("MB", 1e6, 0), ("kB", 1e3, 0))


def size_text(num_bytes: int) -> str:
    """``num_bytes`` in the unit that people use for so many: "4.4 GB", "98 MB", "12 kB", "3 bytes"."""
    for unit, unit_bytes, digits in _UNITS:
        if num_bytes >= unit_bytes:
            return f"{num_bytes / unit_bytes:.{digits}f} {unit}"
    return f"{num_bytes} bytes"

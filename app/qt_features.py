"""Keeps PySide from reading the source of every module that is imported.

PySide looks for its own name there, to leave its optional spellings (``from __feature__ import snake_case``) out of
modules that do not know it. Nothing here uses such spellings; but reading 600 sources, which Python keeps for
tracebacks from then on, takes a tenth of a second of a start and 18 MB.
"""

from __future__ import annotations

import importlib
import logging

_log = logging.getLogger(__name__)
_ASKS = "_mod_uses_pyside"


def read_no_sources() -> None:
    """From now on, once PySide is imported: let it take each module for one that uses no optional spellings."""
    try:
        feature = importlib.import_module("shibokensupport.feature")
    except ImportError:
        feature = None
    if not hasattr(feature, _ASKS):
        _log.info("this PySide asks otherwise which modules use it")
        return
    setattr(feature, _ASKS, lambda _module: False)

"""``python -m tests.engine.hub.download_process URL FOLDER``: downloads acme/m, or goes on with it, to its end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from engine.hub.client import HubClient
from engine.hub.downloads import Downloads


def main(url: str, folder: Path) -> int:
    done: list[object] = []
    downloads = Downloads(folder, HubClient, on_done=done.append)
    downloads.start()
    if not downloads.rows():
        with HubClient(url) as client:
            repository = client.repository("acme/m")
        downloads.add(url, "acme/m", repository.revision, repository.groups.versions[0])
    while not done:
        time.sleep(0.01)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))

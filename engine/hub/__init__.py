"""The hub: search, what a repository holds, headers before a download, and downloads that survive.

    names        the files of a repository: versions, shards, companions; names that must not be stored
    address      a hub's and a page's address as people write them; which hub is asked
    filters      what a search leaves out
    client       search and metadata through ``huggingface_hub``, whose telemetry and transfers stay off
    session      what the library asks through: the token for one origin, a limit to each question
    sockets, http_client  deadlines; clients with the system's proxies and certificates
    faults       what goes wrong on the way, in one sentence each
    connection   requests of our own, with the token for the hub's origin alone
    remote_header  a model file's header by byte ranges, read by the same code as files on disk
    tokens       the access token, in the system's keyring
    transfer     one file: resumed, hashed while it streams, checked
    download_record, download_item, download_work  one download: on the disk, while the program runs, its thread
    unfinished   what is left of downloads, for those who only look or delete
    downloads    all of them: a queue that lives on disk beside the parts

Everything here may wait for the network: never call it on a GUI thread.
"""

import os

# Read by huggingface_hub when it is first imported, which happens in ``client`` alone.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HUB_DISABLE_XET"] = "1"
os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

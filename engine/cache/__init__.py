"""The KV cache: whose blocks are whose, which prefixes they hold, and what of them is on the disk.

block_pool                  reference counts of blocks
radix_tree, checkpoints     prefixes, and the states of recurrent layers after them
kv_cache                    block tables for sequences over both
memory_plan                 how many blocks there are
prompt_logits               the logits after the last few prompts
history                     what was read for which conversation
snapshot_file, _store, _key one file; the folder with its quota; what a snapshot is valid for
deletions, folder_lock      what is deleted stays deleted, whichever program held it
snapshots, restoration      conversations to the disk, and back a few megabytes at a time
"""

"""The KV cache's blocks: ``block_pool`` counts, ``radix_tree`` remembers prefixes, ``kv_cache`` manages both.

``checkpoints`` are the states of recurrent layers on the tree's nodes; ``memory_plan`` sizes it all.
"""

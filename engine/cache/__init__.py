"""The KV cache's blocks: ``block_pool`` counts, ``radix_tree`` remembers prefixes, ``kv_cache`` manages both."""

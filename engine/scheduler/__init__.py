"""Who computes what in a step: ``sequence`` (state), ``batch`` (one step's work), ``scheduler``, ``chunk_size``."""

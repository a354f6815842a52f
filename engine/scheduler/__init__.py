"""Who computes what in a step: ``sequence`` (state), ``batch`` (one step's work), ``scheduler``.

``chunk_size`` and ``step_length`` say how many tokens of a prompt, and of a stream, a step computes.
"""

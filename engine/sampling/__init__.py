"""From logits to the next token.

``params`` (what may be asked for), ``sampler`` (the tokens of one sequence), ``reference`` (the choice, defined in
NumPy), ``kernels`` and ``choice`` (the same, compiled, and its calls); ``stop`` for stop strings.
"""

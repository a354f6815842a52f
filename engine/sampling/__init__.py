"""From logits to the next token: ``params``, ``processors``, ``sampler``; ``stop`` for stop strings."""

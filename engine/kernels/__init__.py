"""Executors of a plan: ``reference`` defines every op in NumPy, ``cpu`` is fast; ``backend`` is what both are."""

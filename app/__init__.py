"""The desktop app: PySide6 around the engine's public face.

``application`` composes it; ``context`` holds the services that features receive; ``chat``, ``library`` and
``preferences`` are features, which do not import each other; ``storage``, ``tasks``, ``throttle``, ``settings``,
``paths``, ``engine_client`` and ``model_session`` are what they share; ``window``, ``widgets`` and ``theme`` show.
"""

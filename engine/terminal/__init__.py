"""The terminal: chat, generate, tokenize, inspect, score and models, each with ``--json``.

``cli`` declares the commands and turns errors into one sentence, ``output`` prints, ``models`` finds the file,
``session`` talks to the engine thread; one file a command.
"""

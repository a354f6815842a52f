"""A table of answers from many texts: rows in, one answer in a given form for each, a table out.

    texts       files into text: encodings, PDF
    sources     rows from tables, folders and lines
    answers     JSON texts as values that every format can hold
    columns     answers as rows of a table
    journal     what became of each row, durable the moment it is known
    run         which rows to ask for next, and what the engine's events mean
    export      the answers as JSON, JSON Lines, CSV and Excel

Knows the protocol and no engine thread: the terminal and the window each bring their own.
"""

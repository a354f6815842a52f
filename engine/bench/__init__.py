"""The benchmark, ``python -m engine bench MODEL``: our speed beside a peer's, as people would feel it.

    command     arguments, and where the results go
    session     the schedule: which test when, ours and the peer's in turn
    engines     the engines under test: one sample at a time
    results     plain data: tests, samples, medians, ratios, the report
    processes   worker processes as the session sees them
    worker      what runs in a worker process: requests in, figures out, one JSON line each
    own, xllamacpp_peer,
    ik_llama_peer             runners inside workers: our backend; llama.cpp and its fork from their wheels
    llama_bench               a native build of llama.cpp or of a fork, through its own benchmark
    first_token               from the start of a process to its first token
    bandwidth                 what the memory gives, measured in the same run
    neighbours                busy processes that take cores away
    token_ids                 what all of them read
    traffic                   bytes of weights and KV cache that a token needs
    synthetic                 random weights in a real model's shape
    table, plot               the report for people
    json_command, json_measure, json_peer, json_cases    ``bench-json``: structured answers, beside llama.cpp's

``python -m engine bench-chat MODEL``: what a chat's turns cost, as the person waits for them.

    chat_command    arguments and table
    chat_scenarios  the turns, and the same prompts on the peer
    chat_stream     a paste beside a stream
    chat_run        our engine as the app runs it: messages in, times out

For ``bench``, each engine runs in processes of its own, and never two at once: an idle worker waits for a line. The
module imports neither numba nor matplotlib nor a peer unless that is what a process is for.
"""

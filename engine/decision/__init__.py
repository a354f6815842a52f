"""Decisions: how likely each of some given answers is, without generating any.

decision     what is asked and what comes of it: plain data that crosses the border
label_trie   the answers as paths of tokens, and the log-probabilities along them
combine      from log-probabilities to a distribution: orders, content-free correction, temperature
calibration  a temperature fitted on examples whose answer is known
desk         the engine thread's decisions, over the lives of engines
decider      decisions in work: the prompt once, then all answers in one batch
"""

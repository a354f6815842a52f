"""Answers in a given form: what may follow, token by token, and how sure the model was.

    response_format     the form as the person gives it: JSON Schema, regular expression, Lark, GBNF
    schema_tree         a schema's parts, paths and references, within bounds
    base_case           recursion that cannot end
    schema_check        what of a schema can be honoured; every fault with its path
    compiler            a form as a grammar of the library's; what an answer violates
    library             llguidance: a vocabulary's table, a matcher
    constraint          the engine's view of a matcher: masks, forced tokens, completion
    answer_gate         where the answer begins, for models that think first
    value_scanner       which tokens carry a value
    certainty           the probability of each value

The first five need no model and are for the app, too.
"""

"""A corpus of planted mistakes and of correct code, kept apart from the rules of the verifier.

Each op is written out rightly once for each face (`right/`); a mistake is an edit of that source,
so that its line is known. `independent.py` shows without the verifier that the right versions are
right and the wrong ones wrong. A third of all cases, chosen by a hash of their names, is frozen:
the harness gives their rates, never their details.
"""

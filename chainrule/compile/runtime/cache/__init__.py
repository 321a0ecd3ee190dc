"""What is kept on disk: programs, kernels known by name, object files that all programs share.

`folder` holds entries by name, signed with the `key`; `surroundings` says what code depends on
beside its program. `entry` is the form of an entry, `checked_json` how what is read is looked at.
"""

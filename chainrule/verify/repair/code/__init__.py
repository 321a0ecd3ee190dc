"""The text of the user's code: edits of it, and what its syntax tells without being run."""

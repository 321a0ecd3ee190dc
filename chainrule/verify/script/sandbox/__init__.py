"""The user's code once more, without a trace: copies of the process, streams put back."""

"""What a user calls, and what is added to an error of the user's own code."""

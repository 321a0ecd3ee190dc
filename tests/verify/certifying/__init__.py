"""From subjects to a report; what is watched while the user's code runs."""

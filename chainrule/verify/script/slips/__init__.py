"""What the text of a script shows to be wrong by itself, of which no run tells more."""

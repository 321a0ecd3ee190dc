"""One step of a script as a whole: what reaches the loss, and where the way back is cut."""

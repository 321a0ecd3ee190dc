"""Elements chosen and written by index, condition, order or membership."""

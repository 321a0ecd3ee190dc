"""Files that are whole or not there: how everything is written to a disk and read from it."""

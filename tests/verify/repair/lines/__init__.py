"""The line that is wrong is the line that is named and changed."""

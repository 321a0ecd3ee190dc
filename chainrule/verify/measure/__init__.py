"""What is measured of a subject: its backward against differences, and against itself."""

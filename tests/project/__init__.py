"""What checks the project itself: its pages, imports, sizes, claims and packages."""

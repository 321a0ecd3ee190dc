"""What is seen: graphs, pictures, notebooks, the progress of a loop."""

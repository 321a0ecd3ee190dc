"""Parts of matrices that large products copy first: panels of the right one, strips of the left."""

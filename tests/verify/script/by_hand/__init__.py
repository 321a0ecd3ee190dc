"""Scripts that compute gradients or update parameters by hand."""

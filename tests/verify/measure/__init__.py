"""What is measured of a subject: values, Jacobians, kernels that are not Python."""

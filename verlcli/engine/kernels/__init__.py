"""Triton kernels; import them only where there is a GPU."""

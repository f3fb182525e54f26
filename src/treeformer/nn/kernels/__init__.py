"""Triton kernels for CUDA. The modules can be imported without Triton; their `can_…` functions then return False."""

r"""Fused multi-threaded CPU kernels."""

"""Learnable neighbourhood aggregators between mean and max for graph neural networks."""

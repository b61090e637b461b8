r"""Graphs that do not fit: batches of nodes, inference layer by layer, and graphs on disk."""

r"""The paper's tables, the ablation and the depth runs."""

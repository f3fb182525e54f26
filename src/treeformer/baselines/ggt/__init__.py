"""GGT, the autoregressive baseline after the Generative Graph Transformer."""

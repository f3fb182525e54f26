"""Baselines that TreeFormer is compared with: the two-stage method and the autoregressive GGT."""

"""The two-stage baseline: maps predicted by a network, then a tree decoded from them."""

"""The page "What you can trust": traits and confidence of the shipped model against the ground truth."""

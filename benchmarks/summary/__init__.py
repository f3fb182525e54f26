"""The page "How good, how fast": tables and images from stored results."""

"""Training: a checked configuration, an endless stream of pictures, a loop that survives a kill."""

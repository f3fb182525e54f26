"""Training: a checked configuration, an endless stream of images, a loop that survives a kill."""

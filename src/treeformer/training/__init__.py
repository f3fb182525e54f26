"""Training: a checked configuration, a stream of images, and a loop that can be killed and resumed at any time."""

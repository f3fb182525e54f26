"""Helpers that all parts share: array types, images, files, worker pools, configuration tables and geometry."""

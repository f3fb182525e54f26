"""Fuzzing: mutated files, images and model folders must be refused in one line or give a result. See `__main__`."""

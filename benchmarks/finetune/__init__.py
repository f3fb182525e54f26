"""Fine-tuning on a few images of a domain that the model has not seen. See __main__.py for the commands."""

"""Fine-tuning on own images: `finetune` writes a better model folder, `rank` says which image to annotate next."""

"""The frozen test protocol of the default model: fixed sets and sizes, stored figures, one table."""

"""Prediction of millions of images: a plan of tasks, results in Parquet, with Ray Data or with independent shards."""

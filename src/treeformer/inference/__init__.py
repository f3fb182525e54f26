"""Prediction: from images to skeletons, with ONNX Runtime or torch, for one image or for many."""

"""Plants in 3-D, their projection and the scenes around them. Only `stage` and `materials` need Blender."""

"""Painting: strokes, noise textures, plant materials, light and camera."""

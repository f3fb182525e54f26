"""Painting: strokes, noise textures, plant materials, light and camera.

Lengths are in px and colors in levels from 0 to 255. A `size` is (width, height) of an image; arrays of its pixels,
maps and masks are (height, width), those of `rows` and `columns` the part of it.
"""

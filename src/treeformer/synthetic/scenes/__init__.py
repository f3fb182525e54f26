"""Scenes: backgrounds of synthetic photographs in the laboratory, on agar plates and outdoors.

Functions paint on the canvas, or take the size and scale of the image from it, and add strokes to the sketch, which
draws all of them at once. `bases` (R,2) are the points at which the plants start. Positions are (x, y), px; `horizon`
is the first row of the ground. `light` is the daylight of the image, and colors are those in white light.
"""

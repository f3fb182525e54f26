"""Growth models: plants as curved axes that are assembled into skeletons.

`axes` is the list of all axes so far, to which functions add new ones. Points are (x, y) in px, a `size` is (width,
height) of the image, and directions are in radians: 0 is right, π/2 is down. In the functions that grow a plant at its
`base`, `reach` is the approximate distance it grows from there and `thickness` the typical radius of its main axis,
both in px.
"""

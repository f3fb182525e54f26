"""The projection of tools/blender against Blender's own; skipped if `bpy` is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

bpy = pytest.importorskip("bpy")
sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "blender"))

from plantscenes import layout, stage  # noqa: E402


def test_the_projection_equals_that_of_blender():
    from bpy_extras.object_utils import world_to_camera_view
    from mathutils import Vector

    planned = layout.plan("potted", 0)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    stage.place_camera(planned, layout.stream("potted", 0, "stage"))
    scene = bpy.context.scene
    scene.render.resolution_x, scene.render.resolution_y = planned.camera.size
    bpy.context.view_layer.update()
    points = np.concatenate([axis.points for axis in planned.front])[::40]
    seen = np.array([world_to_camera_view(scene, scene.camera, Vector(point))[:2] for point in points])
    expected = np.stack([seen[:, 0], 1.0 - seen[:, 1]], axis=1) * planned.camera.size
    np.testing.assert_allclose(planned.camera.project(points)[0], expected, atol=0.01)

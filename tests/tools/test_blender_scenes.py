"""Growth, projection, labels and meshes of tools/blender, without Blender."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from treeformer import formats
from treeformer.errors import TreeformerError
from treeformer.synthetic.rng import Rng

TOOL = Path(__file__).parents[2] / "tools" / "blender"
sys.path.insert(0, str(TOOL))

from plantscenes import assets, clutter, develop, growth, labels, layout, species, tubes  # noqa: E402
from plantscenes.camera import Camera, Tubes, hidden  # noqa: E402

SIZE = (512, 512)


def grown(habit, seed=3):
    plant = growth.Plant3(Rng(seed), 0.02, 0.003)
    if habit == "vine":
        species.grow_vine(plant, 0.7, 1.2, pruned=False)
    elif habit == "shoot":
        species.grow_shoot(plant, 0.5)
    else:
        species.grow_tree(plant, habit, 3.0)
    return plant


@pytest.fixture(scope="module")
def plans():
    return {scene: [layout.plan(scene, seed) for seed in (0, 3, 4)] for scene in layout.SCENES}


@pytest.fixture
def camera():
    return Camera.looking_at(np.array([0.5, -3.0, 1.4]), np.array([0.1, 0.2, 1.0]), 600.0, SIZE, 0.05)


@pytest.mark.parametrize("habit", ["spindle", "vase", "planar", "vine", "shoot"])
def test_axes_are_attached_to_earlier_axes(habit):
    plant = grown(habit)
    assert plant.axes[0].parent is None
    for index, axis in enumerate(plant.axes):
        assert len(axis.points) == len(axis.radius) >= 2
        np.testing.assert_allclose(np.linalg.norm(np.diff(axis.points, axis=0), axis=1), plant.step)
        assert (np.diff(axis.radius) <= 1e-12).all()
        assert axis.radius.min() >= plant.thinnest - 1e-12
        if axis.parent is None:
            np.testing.assert_array_equal(axis.points[0], 0.0)
        else:
            assert 0 <= axis.parent < index
            parent = plant.axes[axis.parent]
            np.testing.assert_array_equal(axis.points[0], parent.points[axis.at])
            assert axis.radius[0] <= max(plant.thinnest, 0.85 * parent.radius[axis.at]) + 1e-12


def test_a_path_bends_towards_its_goal():
    start, heading, goal = np.zeros(3), np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 2.0])
    points = growth.path(Rng(1), start, heading, 2.0, step=0.1, towards=goal, pull=5.0, wander=0.0)
    steps = np.diff(points, axis=0) / 0.1
    np.testing.assert_allclose(steps[0], heading)
    np.testing.assert_allclose(steps[-1], [0.0, 0.0, 1.0], atol=1e-3)


def test_a_perpendicular_vector_is_one():
    for seed in range(20):
        rng = Rng(seed)
        direction = growth.unit(rng.bell(3))
        across = growth.perpendicular(direction, rng.uniform(0, 6))
        assert abs(across @ direction) < 1e-12
        assert np.linalg.norm(across) == pytest.approx(1)
    np.testing.assert_allclose(growth.perpendicular(growth.UP, 0.0), [1, 0, 0])
    np.testing.assert_allclose(growth.perpendicular(growth.UP, np.pi / 2), [0, 1, 0], atol=1e-12)


def test_projection_equals_the_intersection_of_a_ray_with_the_image_plane(camera):
    """The reference walks from the camera to the point and intersects the plane one focal length away."""
    right, up, backward = camera.rotation
    corner = camera.position - backward * camera.focal_px - right * SIZE[0] / 2 + up * SIZE[1] / 2
    points = Rng(2).bell(30, 3) + np.array([0, 1, 1])
    image, depth = camera.project(points)
    for point, (x, y), z in zip(points, image, depth, strict=True):
        ray = point - camera.position
        t = camera.focal_px / (ray @ -backward)
        hit = camera.position + t * ray - corner
        assert x == pytest.approx(hit @ right)
        assert y == pytest.approx(-(hit @ up))
        assert z == pytest.approx(camera.focal_px / t)


def test_the_target_is_in_the_center_and_up_is_up(camera):
    image, _ = camera.project(np.array([[0.1, 0.2, 1.0], [0.1, 0.2, 1.1], [0.5, -9.0, 1.4]]))
    np.testing.assert_allclose(image[0], [256, 256])
    assert image[1, 1] < 256
    assert np.isnan(image[2]).all()  # behind the camera
    np.testing.assert_allclose(camera.rotation @ camera.rotation.T, np.eye(3), atol=1e-12)


def slowly_hidden(points, depth, radius, tubes_):
    result = []
    share = np.linspace(0, 1, 2001)[:, None]
    for point, z, r in zip(points, depth, radius, strict=True):
        covered = False
        for s in range(len(tubes_.start)):
            if max(tubes_.radius_px[s]) <= 1.2:
                continue
            distances = np.linalg.norm(point - lerp(tubes_.start, tubes_.end, s, share), axis=1)
            best, distance = share[np.argmin(distances)][0], distances.min()
            (r0, r1), (z0, z1), (m0, m1) = tubes_.radius_px[s], tubes_.depth[s], tubes_.radius[s]
            back = z0 + best * (z1 - z0) + m0 + best * (m1 - m0)
            covered |= bool(distance + 0.5 * r < r0 + best * (r1 - r0) and back < z)
        result.append(covered)
    return np.array(result)


def lerp(start, end, s, t):
    return start[s] + t * (end[s] - start[s])


def test_visibility_equals_the_slow_reference(camera):
    rng = Rng(9)
    lines = [(rng.bell(3, 3) * 0.5 + [0, 0, 1], rng.array(3, low=0.005, high=0.12)) for _ in range(6)]
    points, depth = camera.project(rng.bell(60, 3) * 0.5 + [0, 0.3, 1])
    radius = rng.array(60, low=0.5, high=4.0)
    tubes_ = Tubes.of(camera, lines)
    found = hidden(points, depth, radius, tubes_)
    np.testing.assert_array_equal(found, slowly_hidden(points, depth, radius, tubes_))
    assert 0 < found.sum() < len(found)


def straight(start, end, radius, count=41, **attached):
    points = np.linspace(start, end, count)
    return growth.Axis3(points, np.full(count, radius), **attached)


@pytest.fixture
def front():
    return Camera.looking_at(np.array([0.0, -2.0, 1.0]), np.array([0.0, 0.0, 1.0]), 512.0, SIZE)


def test_labels_of_a_small_plant(front):
    """One pixel is 1/256 m; the trunk is 20 px wide and z = 1 m is row 256."""
    trunk = straight([0, 0, 0.5], [0, 0, 1.5], 10 / 256)
    sideways = straight(trunk.points[20], [0.4, 0, 1.0], 2 / 256, parent=0, at=20, label="branch")
    behind = straight(trunk.points[10], [0, 0.5, 0.75], 2 / 256, parent=0, at=10)
    before = straight(trunk.points[30], [0, -0.3, 1.25], 2 / 256, parent=0, at=30)
    skeleton = labels.project_plant([trunk, sideways, behind, before], front, {"seed": 1})
    assert skeleton.is_tree
    assert [axis.label for axis in skeleton.axes] == ["", "branch"]
    ends = skeleton.nodes[skeleton.degree == 1]
    np.testing.assert_allclose(ends[np.argsort(ends[:, 1])], [[256, 128], [256 + 102.4, 256], [256, 384]], atol=0.02)
    np.testing.assert_allclose(skeleton.nodes[skeleton.roots], [[256, 384]])
    assert set(np.round(skeleton.radius).tolist()) == {2.0, 10.0}
    assert "foot" not in skeleton.metadata


def test_what_a_post_hides_is_cut_unless_something_visible_follows(front):
    stem = straight([-0.5, 0, 1.0], [0.0, 0, 1.0], 2 / 256)
    post = (np.array([[0.0, -0.2, 0.0], [0.0, -0.2, 2.0]]), np.full(2, 0.05))
    cut = labels.project_plant([stem], front, {}, [post])
    assert cut.nodes[:, 0].max() == pytest.approx(256 - 0.05 / 1.8 * 512, abs=4)
    beyond = straight(stem.points[-1], [0.5, 0, 1.0], 2 / 256, parent=0, at=40)
    whole = labels.project_plant([stem, beyond], front, {}, [post])
    assert whole.nodes[:, 0].max() == pytest.approx(384, abs=0.1)


def test_a_hidden_branch_takes_along_what_begins_at_its_first_point(front):
    trunk = straight([0, 0, 0.5], [0, 0, 1.5], 10 / 256)
    behind = straight(trunk.points[10], [0, 0.5, 0.75], 2 / 256, parent=0, at=10)
    twig = straight(behind.points[0], [0.4, 0, 0.75], 2 / 256, parent=1, at=0)
    skeleton = labels.project_plant([trunk, behind, twig], front, {})
    assert len(skeleton.axes) == 1


def test_the_frame_cuts_the_foot_and_the_tip(front):
    skeleton = labels.project_plant([straight([0, 0, -1], [0, 0, 3], 0.01, 401)], front, {})
    assert skeleton.metadata["foot"] == "outside"
    assert 500 < skeleton.nodes[skeleton.roots[0], 1] <= 511
    assert 1 <= skeleton.nodes[:, 1].min() < 12
    assert len(labels.project_plant([straight([9, 0, 0], [9, 0, 2], 0.01)], front, {})) == 0


def test_junctions_are_apart(front):
    trunk = straight([0, 0, 0.5], [0, 0, 1.5], 0.01)
    sides = [straight(trunk.points[at], [0.4, 0, at / 40 + 0.6], 0.004, parent=0, at=at) for at in (10, 11, 12, 20)]
    trunk = growth.Axis3(np.linspace([0, 0, 0.5], [0, 0, 0.7], 41), trunk.radius)
    sides = [straight(trunk.points[a.at], a.points[-1], 0.004, parent=0, at=a.at) for a in sides]
    skeleton = labels.project_plant([trunk, *sides], front, {})
    junctions = skeleton.nodes[skeleton.degree > 2]
    gaps = np.diff(np.sort(junctions[:, 1]))
    assert len(junctions) < 4
    assert (gaps >= labels.MIN_JUNCTION_PX - 0.02).all()


@pytest.mark.slow
@pytest.mark.parametrize("scene", layout.SCENES)
def test_plans_have_valid_labels(plans, scene, tmp_path):
    few, many = layout.NODES[scene]
    for plan in plans[scene]:
        skeleton = plan.skeleton
        assert skeleton.is_tree
        assert few <= len(skeleton) <= many
        assert ((skeleton.nodes >= 0) & (skeleton.nodes <= 512)).all()
        assert skeleton.radius.min() > 0.2
        lengths = np.linalg.norm(np.diff(skeleton.nodes[skeleton.edges], axis=1)[:, 0], axis=1)
        assert lengths.max() < 1.6 * labels.NODE_SPACING_PX
        formats.write(skeleton, tmp_path / "label.json")
        assert formats.read(tmp_path / "label.json") == skeleton


@pytest.mark.slow
@pytest.mark.parametrize("scene", layout.SCENES)
def test_a_seed_gives_one_plan(plans, scene):
    again = layout.plan(scene, 0)
    assert again.skeleton == plans[scene][0].skeleton
    assert again.instances == plans[scene][0].instances
    assert plans[scene][1].skeleton != plans[scene][0].skeleton


def test_streams_differ_by_purpose():
    draws = {layout.stream(scene, 1, purpose).fraction() for scene in layout.SCENES for purpose in ("plan", "stage")}
    assert len(draws) == 6
    with pytest.raises(ValueError, match="unknown scene 'desert'"):
        layout.plan("desert", 0)


def test_ground_points_lie_in_the_image(camera):
    points = layout.ground_points(Rng(4), camera, 400, 10.0)
    image, depth = camera.project(np.concatenate([points, np.zeros((len(points), 1))], axis=1))
    assert 20 < len(points) < 400
    assert (depth > 0).all()
    assert (np.abs(image - 256) <= 256 + 0.13 * 512).all()
    assert len(layout.ground_points(Rng(4), camera, 0, 10.0)) == 0


def test_a_tube_has_its_radius_and_faces_outward():
    points = np.stack([np.linspace(0, 1, 9) ** 2, np.linspace(0, 0.5, 9), np.linspace(0, 2, 9)], axis=1)
    mesh = tubes.tube(points, np.linspace(0.1, 0.05, 9), 8)
    rings = mesh.vertices.reshape(10, 8, 3)
    np.testing.assert_allclose(rings[:9].mean(axis=1), points, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(rings[:9] - points[:, None], axis=2)[:, 0], np.linspace(0.1, 0.05, 9))
    corners = mesh.vertices[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0])
    nearest = points[np.argmin(np.linalg.norm(corners.mean(axis=1)[:, None] - points, axis=2), axis=1)]
    assert (np.einsum("ij,ij->i", normal, corners.mean(axis=1) - nearest)[:-8] > 0).all()


def test_joined_meshes_keep_their_faces():
    first, second = clutter.sheet_mesh((0, 0, 0), (1, 0, 0), (0, 1, 0)), clutter.tuft_mesh(Rng(1), 0.1)
    both = tubes.join([first, second])
    np.testing.assert_array_equal(both.vertices[both.faces[0]], first.vertices[first.faces[0]])
    np.testing.assert_array_equal(both.vertices[both.faces[1:]], second.vertices[second.faces])


@pytest.mark.parametrize(
    "mesh",
    [
        lambda rng: clutter.ground_mesh(rng),
        lambda rng: clutter.leaves_mesh(rng, rng.array(9, 2), 0.05),
        lambda rng: clutter.prunings_mesh(rng, rng.array(9, 2)),
        lambda rng: clutter.stone_mesh(rng),
        lambda rng: clutter.horizon_mesh(rng, 50.0, 4.0, trees=True),
        lambda rng: clutter.pot_mesh(0.1, 0.2, 0.8, square=False),
        lambda rng: clutter.soil_mesh(rng, 0.1),
        lambda rng: clutter.foliage_mesh(rng, grown("shoot").axes, 0.03, 0.5),
        lambda rng: tubes.plant_mesh(grown("vine").axes, rng, 0.004),
    ],
)
def test_meshes_are_consistent(mesh):
    made = mesh(Rng(5))
    assert np.isfinite(made.vertices).all()
    assert np.isfinite(made.uv).all()
    assert made.faces.min() >= 0
    assert made.faces.max() < len(made.vertices)
    assert made.uv.shape == (len(made.faces), 4, 2)
    assert len(made.thickness) == len(made.vertices)


def test_developing_is_deterministic_and_exposes_well():
    light = np.abs(Rng(1).bell(64, 96, 3)) * np.linspace(0.01, 8, 96)[None, :, None]
    image = develop.develop(light, Rng(7))
    np.testing.assert_array_equal(image, develop.develop(light, Rng(7)))
    brighter = develop.develop(light * 1000, Rng(7))
    assert np.abs(image.astype(int) - brighter).max() <= 2
    assert image.shape == (64, 96, 3)
    assert 60 < image.mean() < 180


def test_white_balance_corrects_blue_ground_only():
    light = Rng(1).array(64, 64, 3, low=0.05, high=0.3)
    blue, brown = light * [0.6, 0.8, 1.5], light * [1.2, 1.0, 0.6]
    for seed in range(5):
        red, _, rest = develop.develop(blue, Rng(seed))[32:].mean(axis=(0, 1))
        assert abs(rest - red) < 25
        red, _, rest = develop.develop(brown, Rng(seed))[32:].mean(axis=(0, 1))
        assert red > rest + 20


def test_the_foot_of_a_plant_reaches_into_the_ground():
    plant = grown("vine")
    mesh = tubes.plant_mesh(plant.axes, Rng(1), 0.004)
    assert mesh.vertices[:, 2].min() < -0.5 * tubes.FOOT_M
    assert min(axis.points[:, 2].min() for axis in plant.axes) >= 0.0


def test_leaves_grow_on_their_axes():
    axes = grown("shoot").axes
    corners = clutter.foliage_mesh(Rng(5), axes, 0.03, 0.5).vertices.reshape(-1, 4, 3)
    points = np.concatenate([axis.points for axis in axes])
    assert np.linalg.norm(corners[:, 0, None] - points[None], axis=2).min(axis=1).max() < 1e-9


def test_soil_fills_a_square_pot():
    x, y, _ = clutter.soil_mesh(Rng(1), 0.1, square=True).vertices.T
    assert np.hypot(x, y).max() > 0.13
    assert max(np.abs(x).max(), np.abs(y).max()) <= 0.1 + 1e-12


def test_images_are_small():
    noisy = (Rng(1).array(512, 512, 3) * 255).astype(np.uint8)
    smooth = np.broadcast_to(np.linspace(0, 255, 512)[:, None, None], (512, 512, 3)).astype(np.uint8)
    file = develop.jpeg(smooth)
    assert len(file) <= develop.MOST_BYTES
    assert np.abs(np.asarray(Image.open(io.BytesIO(file)), dtype=int) - smooth).mean() < 2
    assert Image.open(io.BytesIO(develop.jpeg(noisy))).size == SIZE  # at the lowest quality


def archive(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def test_assets_are_unpacked_and_checked(tmp_path, monkeypatch):
    packed = archive(
        {
            "package/LICENSE": b"free",
            "package/hdri/park.exr.js": b'export default "data:image/exr;base64,AAEC"',
            "package/other.txt": b"no",
            "package/../../hdri/evil.exr.js": b"base64,AAEC",
        }
    )
    monkeypatch.setattr(assets.urllib.request, "urlopen", lambda address, timeout: io.BytesIO(packed))
    with pytest.raises(TreeformerError, match="is not the archive"):
        assets.unpack(tmp_path)
    digest = assets.hashlib.sha512(packed).hexdigest()
    monkeypatch.setattr(assets, "EZ_TREE", ("x", "https://example.org/a.tgz", digest, assets.PMNDRS[3]))
    monkeypatch.setattr(assets, "PMNDRS", ("x", "https://example.org/a.tgz", digest, assets.PMNDRS[3]))
    assets.unpack(tmp_path)
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"LICENSE", "park.exr"}
    assert assets.find(tmp_path, "park.exr").read_bytes() == bytes([0, 1, 2])
    with pytest.raises(TreeformerError, match=r"sky\.exr is missing"):
        assets.find(tmp_path, "sky.exr")
    with pytest.raises(TreeformerError, match="no base64"):
        assets.decode_module(b"export default 1")


@pytest.mark.slow
def test_a_mistake_is_one_line(tmp_path):
    command = [sys.executable, str(TOOL / "render.py"), str(tmp_path), "--scene", "orchard", "--count", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "render: the count must be at least 1 and the seed at least 0\n"

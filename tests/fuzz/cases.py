"""The cases by kind. Each is made from a seed alone, and is refused (`TreeformerError`) or accepted.

Every other exception is a defect. So is an error message of several lines, a NumPy warning in the package, or a file
that the package writes and cannot read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.fuzz.mutations import change_value, flip_bytes, mutate, truncate
from tests.inference.fake_engine import line_engine, predictor
from treeformer import Skeleton, TreeformerError, formats
from treeformer._util.images import open_image
from treeformer.draw import draw, draw_comparison
from treeformer.hub.model_folder import DEFAULT_FOLDER, open_model
from treeformer.inference.predictor import Predictor
from treeformer.metrics import evaluate_pair
from treeformer.traits import measure

WRITABLE = [name for name, entry in formats.FORMATS.items() if entry.write is not None]
DATE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")  # RSML files state when they were written
READ_ONLY = ["single-guyot", "branch-trees"]


def generator(kind: str, seed: int) -> np.random.Generator:
    """Return the random numbers of a case."""
    return np.random.default_rng([*kind.encode(), seed])


@contextmanager
def refusals(accepted: list[str] | None = None) -> Iterator[None]:
    """Ignore one-line errors of the package; append them to a list if there is one."""
    try:
        yield
    except TreeformerError as error:
        check_message(error)
        if accepted is not None:
            accepted.append(str(error))


def check_message(error: TreeformerError) -> None:
    """Raise if an error message is empty, has several lines, or is too long to read."""
    message = str(error)
    if not message or len(message.splitlines()) > 1 or len(message) > 2000:
        raise AssertionError(f"the message is not one short line: {message[:200]!r}") from error


# ---- skeleton files --------------------------------------------------------------------------------


def random_skeleton(rng: np.random.Generator) -> Skeleton:
    """Return a tree, a forest or a graph with cycles, of 0 to 40 nodes, with some of the optional fields."""
    count = int(rng.choice([0, 1, 2, 3, 8, 20, 40]))
    size = (int(rng.integers(1, 600)), int(rng.integers(1, 600)))
    nodes = np.round(rng.uniform(-0.1, 1.1, (count, 2)) * size, 2)
    if count > 2 and rng.random() < 0.2:
        nodes[1] = nodes[0]
    parents = [-1 if k == 0 or rng.random() < 0.05 else int(rng.integers(max(0, k - 6), k)) for k in range(count)]
    options: dict[str, Any] = {"image_size": size if rng.random() < 0.8 else None}
    if rng.random() < 0.5:
        options["radius"] = rng.uniform(0, 5, count)
    if rng.random() < 0.3:
        options["node_score"] = rng.uniform(0, 1, count)
    if rng.random() < 0.3:
        options |= {"image_name": "Bild ä.png", "metadata": {"unit": "mm", "resolution": "11.8", "note": [1, {}]}}
    skeleton = Skeleton.from_parents(nodes, parents, **options)
    if rng.random() < 0.4:
        skeleton = skeleton.infer_axes(0.5)
    if count > 3 and rng.random() < 0.15:
        edges = {tuple(sorted(edge)) for edge in skeleton.edges.tolist()}
        edges |= {(0, count - 1), (1, count - 2)} - {(1, 1)}
        skeleton = Skeleton(nodes, sorted(edge for edge in edges if edge[0] != edge[1]), image_size=size)
    return skeleton


def document(skeleton: Skeleton, name: str, folder: Path) -> tuple[bytes, str]:
    """Return the content and the suffix of a file of a format, the native one if it cannot store the skeleton."""
    if name == "single-guyot":
        parents = skeleton.parents.tolist() if skeleton.is_forest else [-1] * len(skeleton)
        places = zip(skeleton.nodes.tolist(), parents, strict=True)
        features = [{"FeatureID": k, "FeatureCoordinates": p, "ParentID": q} for k, (p, q) in enumerate(places)]
        return json.dumps({"VineImage": [{"VineFeature": [features]}], "Version": 2}).encode(), ".json"
    if name == "branch-trees":
        lines = [str([tuple(skeleton.nodes[k]) for k in (u, v)]) for u, v in skeleton.edges.tolist()] or ["[]"]
        branches = "".join(f'<branch1 num="{k}">{line}</branch1>' for k, line in enumerate(lines[1:]))
        text = f"<level0><point>{lines[0]}</point><branch0>{lines[0]}</branch0></level0><level1>{branches}</level1>"
        return f'<?xml version="1.0" ?>\n<file name="a.png">{text}</file>'.encode(), ".xml"
    path = folder / f"original{formats.FORMATS[name].suffixes[0]}"
    try:
        formats.write(skeleton, path, format=name)
    except TreeformerError as error:
        check_message(error)
        path = folder / "original.json"
        formats.write(skeleton, path)
    return DATE.sub(b"2024-06-20T18:03:01+00:00", path.read_bytes()), path.suffix


def file_case(seed: int, folder: Path) -> bool:
    """Read a mutated skeleton file and use what it contains in every way. Return False if the file is refused."""
    rng = generator("file", seed)
    skeleton, other = random_skeleton(rng), random_skeleton(rng)
    names = WRITABLE + READ_ONLY
    data, suffix = document(skeleton, names[int(rng.integers(len(names)))], folder)
    if rng.random() < 0.97:
        data = mutate(data, rng)
    if rng.random() < 0.05:
        suffix = sorted(formats.SUFFIXES)[int(rng.integers(len(formats.SUFFIXES)))]
    path = folder / f"mutated{suffix}"
    path.write_bytes(data)
    assert formats.is_skeleton_file(path) in (True, False)
    refused: list[str] = []
    found: list[Skeleton] = []
    with refusals(refused):
        found = list(islice(formats.read_all(path), 3))
    for number, read in enumerate(found):
        use(read, other, folder / str(number), rng)
    return not refused


def use(skeleton: Skeleton, other: Skeleton, folder: Path, rng: np.random.Generator) -> None:
    """Measure, draw, write, resample and evaluate a skeleton. Each step may refuse it in one line."""
    for level in ("plant", "axis", "segment"):
        with refusals():
            measure(skeleton, level=level)
    with refusals():
        draw(None, skeleton)
    with refusals():
        draw_comparison(None, skeleton, other.replace(image_size=skeleton.image_size))
    name = WRITABLE[int(rng.integers(len(WRITABLE)))]
    path = folder / f"copy{formats.FORMATS[name].suffixes[0]}"
    with refusals():
        formats.write(skeleton, path, format=name)
    if path.exists():
        try:
            formats.read(path, format=name)
        except TreeformerError as error:
            raise AssertionError(f"a written {name} file cannot be read: {error}") from error
    for change in (
        lambda: skeleton.resample(8.0),
        lambda: skeleton.sample_at_grid_crossings(16.0),
        lambda: skeleton.simplify(1.0),
        skeleton.contract,
        skeleton.largest,
    ):
        with refusals():
            change()
    size = skeleton.image_size or other.image_size or (512, 512)
    pair = skeleton.replace(image_size=size), other.replace(image_size=size)
    for prediction, ground_truth in (pair, pair[::-1]):
        with refusals():
            row = evaluate_pair(prediction, ground_truth)
            assert all(np.isfinite(value) or key == "length_error" or "_line_" in key for key, value in row.items()), (
                row
            )


def warm_up(folder: Path) -> None:
    """Import everything that the cases use: forked processes then need not."""
    tree = Skeleton([(5, 9), (5, 5), (2, 1), (8, 1)], [(0, 1), (1, 2), (1, 3)], root=0, image_size=(10, 10))
    use(tree, tree, folder, np.random.default_rng(0))
    for name in WRITABLE:
        path = folder / name / f"tree{formats.FORMATS[name].suffixes[0]}"
        formats.write(tree, path, format=name)
        formats.read(path)
    folder.mkdir(exist_ok=True)
    Image.new("RGB", (70, 50)).save(folder / "image.tif")
    _predict(predictor(line_engine()), folder / "image.tif", np.random.default_rng(0))


# ---- images ----------------------------------------------------------------------------------------

# The fast engine has tiles of 64 px. A mutated header that states more pixels would give ten thousands of tiles, which
# take longer than a case may.
MOST_PIXELS = 2_000_000
# Pillow modes that each format can store.
IMAGE_MODES = {
    "png": ("L", "RGB", "RGBA", "P", "LA", "I;16", "1"),
    "jpg": ("L", "RGB", "CMYK"),
    "tif": ("L", "RGB", "RGBA", "P", "CMYK", "I;16", "F", "I", "1"),
    "bmp": ("L", "RGB", "P", "1"),
    "gif": ("L", "P", "RGB"),
    "webp": ("RGB", "RGBA"),
}


def random_image(rng: np.random.Generator, folder: Path) -> Path:
    """Write an image of a random format, mode and size, most of them with mutated bytes."""
    suffix = sorted(IMAGE_MODES)[int(rng.integers(len(IMAGE_MODES)))]
    mode = IMAGE_MODES[suffix][int(rng.integers(len(IMAGE_MODES[suffix])))]
    sides = ((1, 1), (1, 700), (700, 1), (3, 2), (64, 64), (200, 130), (97, 301), (640, 2))
    width, height = sides[int(rng.integers(len(sides)))]
    pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    if mode == "I;16":
        image = Image.fromarray(rng.integers(0, 65536, (height, width)).astype(np.uint16))
    elif mode in ("F", "I"):
        values = rng.choice([0.0, 1.0, 1e30, -1e30, np.nan, np.inf], (height, width)).astype(np.float32)
        image = Image.fromarray(values if mode == "F" else rng.integers(-9, 2**31 - 1, (height, width), dtype=np.int32))
    else:
        image = Image.fromarray(pixels).convert(mode)
    path = folder / f"image.{suffix}"
    options: dict[str, Any] = {}
    if suffix in ("jpg", "png", "webp", "tif") and rng.random() < 0.3:
        exif = Image.Exif()
        exif[0x0112] = int(rng.integers(0, 300))
        options["exif"] = exif
    image.save(path, **options)
    data = path.read_bytes()
    if rng.random() < 0.8:
        data = mutate(data, rng) if rng.random() < 0.3 else flip_bytes(data, rng)
        if rng.random() < 0.3:
            data = truncate(data, rng)
    path.write_bytes(data)
    return path


def _pixels(path: Path) -> int:
    """Return the number of pixels that the header of an image states, 0 if it cannot be read."""
    try:
        with Image.open(path) as image:
            return image.width * image.height
    except Exception:
        return 0


def image_case(seed: int, folder: Path) -> bool:
    """Predict a mutated image with a fast engine. Return False if it is refused."""
    rng = generator("image", seed)
    path = random_image(rng, folder)
    size = (None, "full", 1, 40, 5000)[int(rng.integers(5))]
    if size in ("full", 5000) and _pixels(path) > MOST_PIXELS:
        size = None
    return _predict(predictor(line_engine()), path, rng, working_size=size)


def model_image_case(seed: int, folder: Path) -> bool:
    """Predict a mutated image with the default model. Return False if it is refused."""
    rng = generator("model-image", seed)
    path = random_image(rng, folder)
    return _predict(Predictor(engine="onnx", threads=1), path, rng)


def _predict(model: Predictor, path: Path, rng: np.random.Generator, **options: Any) -> bool:
    refused: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # no plant was found
        with refusals(refused):
            skeleton = model.predict(path, single_plant=bool(rng.random() < 0.3), **options)
            assert skeleton.is_forest
            assert np.isfinite(skeleton.nodes).all()
            assert skeleton.image_size is not None
            drawn = draw(open_image(path, longest_px=1000), skeleton)
            assert max(drawn.size) == min(1000, max(skeleton.image_size))
            formats.write(skeleton, path.with_suffix(".json"))
            assert len(formats.read(path.with_suffix(".json"))) == len(skeleton)
        (result,) = model.predict_many([path], workers=0, **options)
    if isinstance(result, TreeformerError):
        check_message(result)
    assert isinstance(result, TreeformerError) == bool(refused)
    return not refused


# ---- model folders ---------------------------------------------------------------------------------

MODEL_FILES = ("config.json", "model.safetensors", "model.onnx", "model-int8.onnx")


def folder_case(seed: int, folder: Path) -> bool:
    """Open a damaged model folder and, if it is accepted, predict with it. Return False if it is refused."""
    rng = generator("folder", seed)
    model = folder / "model"
    model.mkdir()
    for name in MODEL_FILES:
        os.link(shared_copy(folder.parent / "default-model") / name, model / name)
    damage(model, rng)
    refused: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with refusals(refused):
            loaded = Predictor(open_model(model), engine="onnx", threads=1)
            loaded.predict(np.full((40, 60, 3), 128, dtype=np.uint8))
    return not refused


def shared_copy(folder: Path) -> Path:
    """Return a copy of the default model that all cases link to: the package may be on another drive."""
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}-{os.getpid()}")
        unfinished.mkdir()
        for name in MODEL_FILES:
            (unfinished / name).write_bytes((DEFAULT_FOLDER / name).read_bytes())
        try:
            unfinished.rename(folder)
        except OSError:
            assert folder.is_dir(), "another process made it meanwhile"
    return folder


def damage(model: Path, rng: np.random.Generator) -> None:
    """Change config.json, or replace or mutate another file; most mutated files get a valid hash in config.json."""
    kind = rng.random()
    if kind < 0.5:
        config = json.loads((model / "config.json").read_bytes())
        for _ in range(int(rng.integers(1, 4))):
            part = "settings" if isinstance(config.get("settings"), dict) and rng.random() < 0.3 else None
            changed = change_value(config[part] if part else config, rng)
            config = config | {part: changed} if part else changed
            if not isinstance(config, dict):
                break
        return replace(model / "config.json", json.dumps(config).encode())
    if kind < 0.6:
        return replace(model / "config.json", mutate((model / "config.json").read_bytes(), rng))
    name = MODEL_FILES[int(rng.integers(len(MODEL_FILES)))]
    data = (model / name).read_bytes()
    if kind < 0.75:
        special(model / name, rng)
        return None
    if name == "model.safetensors" and rng.random() < 0.5:
        length = int.from_bytes(data[:8], "little")
        data = (
            (2**63).to_bytes(8, "little") + data[8:],
            (length + 10**9).to_bytes(8, "little") + data[8:],
            data[:8] + mutate(data[8 : 8 + length], rng) + data[8 + length :],
            data[:8] + data[8 : 8 + length].replace(b'"F16"', b'"F64"') + data[8 + length :],
            data[:8] + b'{"a":' * (length // 5) + b" " * (length % 5) + data[8 + length :],
        )[int(rng.integers(5))]
    else:
        data = (flip_bytes, truncate, mutate)[int(rng.integers(3))](data, rng)
    replace(model / name, data)
    if name != "config.json" and rng.random() < 0.8:
        config = json.loads((model / "config.json").read_bytes())
        config["sha256"][name] = hashlib.sha256(data).hexdigest()
        replace(model / "config.json", json.dumps(config).encode())
    return None


def special(path: Path, rng: np.random.Generator) -> None:
    """Replace a file by nothing, a FIFO, a folder, a link to itself, a device, or a file of 5 GB of zeros."""
    path.unlink()
    kind = int(rng.integers(6))
    if kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.mkdir()
    elif kind == 3:
        path.symlink_to(path.name)
    elif kind == 4:
        path.symlink_to("/dev/zero")
    elif kind == 5:
        with path.open("wb") as file:
            file.truncate(5_000_000_000)


def replace(path: Path, data: bytes) -> None:
    """Write a new file in place of a hard link."""
    path.unlink()
    path.write_bytes(data)


CASES: dict[str, Callable[[int, Path], bool]] = {
    "file": file_case,
    "image": image_case,
    "model-image": model_image_case,
    "folder": folder_case,
}
"""Every kind of case: a function of seed and folder that returns False if the input is refused."""

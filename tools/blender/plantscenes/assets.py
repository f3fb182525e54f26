"""Openly licensed textures and skies from two npm packages, unpacked once into a folder."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tarfile
import urllib.request
from pathlib import Path

from treeformer._util.files import atomic_write_bytes
from treeformer.errors import TreeformerError

REGISTRY = "https://registry.npmjs.org"
# Package, address, SHA-512 of the archive, and the files to unpack.
EZ_TREE = (
    "@dgreenheck/ez-tree 1.1.0 (MIT)",
    f"{REGISTRY}/@dgreenheck/ez-tree/-/ez-tree-1.1.0.tgz",
    "ea9bd2ea10fa07a874d1d9b44a792061e4f800153963567d338e29d6d5e25790b478aad0cb6b0a1025ec868694bf4a803aa6152faf30fcfc1a754c4314388752",
    r"package/(LICENSE|src/lib/assets/(bark/\w+_color_1k\.jpg|bark/README\.md)"
    r"|src/app/public/(dirt_color|grass)\.jpg)",
)
PMNDRS = (
    "@pmndrs/assets 1.7.0 (CC0)",
    f"{REGISTRY}/@pmndrs/assets/-/assets-1.7.0.tgz",
    "cc798a352fb726fbbd2b7cc90507d840a4fd3e7f4842df2cd2afde242dc25caa56a7283a2016be8af37d3600e7f9f0d3d80563521d98459fff19752e7ae01d0a",
    r"package/(LICENSE|hdri/\w+\.exr\.js)",
)
BARKS = ("birch_color_1k.jpg", "oak_color_1k.jpg", "pine_color_1k.jpg", "willow_color_1k.jpg")
GROUNDS = ("dirt_color.jpg", "grass.jpg")
# The suns of "park.exr" and "sunrise.exr" are blue: compression destroyed two of their channels.
OUTDOOR_SKIES = ("city.exr", "sky.exr", "forest.exr", "dawn.exr", "venice.exr")
ROOMS = ("apartment.exr", "bridge.exr", "hall.exr", "lab.exr", "lobby.exr", "warehouse.exr", "workshop.exr")


def unpack(folder: Path) -> None:
    """Download both packages and unpack the files that the scenes use; do nothing if they are there.

    A failed download or another check sum is a `TreeformerError`.
    """
    for name, address, digest, wanted in (EZ_TREE, PMNDRS):
        target = folder / address.rsplit("/", 1)[1].removesuffix(".tgz")
        if (target / "LICENSE").is_file():
            continue
        try:
            with urllib.request.urlopen(address, timeout=120) as reply:
                data = reply.read()
        except OSError as error:
            raise TreeformerError(f"{address}: cannot be downloaded ({error})") from None
        if hashlib.sha512(data).hexdigest() != digest:
            raise TreeformerError(f"{address}: is not the archive of {name} that the scenes were built with")
        _unpack_files(data, target, re.compile(wanted))


def _unpack_files(data: bytes, target: Path, wanted: re.Pattern[str]) -> None:
    """Write the wanted files of an archive; the license, which marks a finished folder, last."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [member for member in archive if member.isfile() and wanted.fullmatch(member.name)]
        members.sort(key=lambda member: member.name.endswith("LICENSE"))
        target.mkdir(parents=True, exist_ok=True)
        for member in members:
            stream = archive.extractfile(member)
            content = b"" if stream is None else stream.read()
            name = Path(member.name).name
            if name.endswith(".js"):  # a JavaScript module that exports a data address
                content, name = decode_module(content), name.removesuffix(".js")
            atomic_write_bytes(target / name, content)


def decode_module(content: bytes) -> bytes:
    """Return the file inside a JavaScript module that exports it as a base64 data address."""
    match = re.search(rb"base64,([A-Za-z0-9+/=]+)", content)
    if match is None:
        raise TreeformerError("a module of @pmndrs/assets has no base64 data")
    return base64.b64decode(match.group(1))


def find(folder: Path, name: str) -> Path:
    """Return the path of a file that `unpack` wrote to a folder."""
    for path in folder.glob(f"*/{name}"):
        return path
    raise TreeformerError(f"{folder}: {name} is missing; delete the folder and run again")

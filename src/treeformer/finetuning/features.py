"""Frozen features: the first stages of the backbone are computed once per crop and kept on the disk.

On a CPU, half of a training step is the backbone's forward pass and its gradient. With cached features the rest of the
network trains at twice the speed or better, and needs no memory for the backbone's activations.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from treeformer._util.arrays import ImageArray
from treeformer._util.files import atomic_write
from treeformer.models.treeformer import TreeFormer
from treeformer.nn.backbone import ResNet

# Largest number that float16 holds.
LARGEST = 65504.0


class TopOfBackbone(nn.Module):
    """Takes the place of a backbone whose first stages are frozen. Returns stored features instead of computing them.

    Args:
        backbone: the backbone. Its last stages are shared, not copied.
        trained_stages: number of stages, from the last one, that are computed and can be trained.

    Attributes:
        channels: output channels of all stages.
        strides: strides of all stages, px.
        stored: features of the frozen stages, (B,channels[i],h,w) each. Set them before every forward pass.
    """

    def __init__(self, backbone: ResNet, trained_stages: int = 0) -> None:
        super().__init__()
        self.channels, self.strides = backbone.channels, backbone.strides
        self.trained_names = backbone.stage_names[len(backbone.stage_names) - trained_stages :]
        for name in self.trained_names:
            self.add_module(name, getattr(backbone, name))
        self.stored: list[Tensor] = []

    def forward(self, _images: Tensor) -> list[Tensor]:
        """Return the features of all stages. Only the size of the images is used, by the caller."""
        stages = list(self.stored)
        for name in self.trained_names:
            stages.append(getattr(self, name)(stages[-1]))
        return stages


class FeatureStore:
    """Features of images as float16 files, one per image.

    Args:
        folder: the folder of the files; created when the first one is written.
        backbone: the frozen backbone.
        side: side of the images, px.
        stages: number of stages to store, from the first one.
        max_bytes: largest size of all files together, bytes. Further features are computed at every call.
    """

    def __init__(self, folder: Path, backbone: ResNet, side: int, stages: int, max_bytes: float = math.inf) -> None:
        self.folder, self.backbone, self.stages, self.max_bytes = folder, backbone, stages, max_bytes
        self.shapes = [
            (1, side // stride, side // stride, channels)
            for stride, channels in zip(backbone.strides[:stages], backbone.channels[:stages], strict=True)
        ]

    @property
    def file_bytes(self) -> int:
        """Size of one file, bytes."""
        return 2 * sum(int(np.prod(shape)) for shape in self.shapes)

    def get(self, name: str, image: Callable[[], ImageArray]) -> list[Tensor]:
        """Return the features of an image. Compute and store them if they are not stored yet.

        Args:
            name: name of the file without suffix.
            image: returns the image, (side,side,3) uint8 RGB. Called only if needed.

        Returns:
            (1,channels[i],h,w) float32 for each stored stage.

        Raises:
            OSError: if the file cannot be written.
        """
        path = self.folder / f"{name}.npy"
        stored = self._read(path)
        if stored is None:
            computed = self._compute(image())
            flat = np.concatenate([stage.permute(0, 2, 3, 1).numpy().ravel() for stage in computed])
            stored = np.clip(flat, -LARGEST, LARGEST).astype(np.float16)
            if (len(list(self.folder.glob("*.npy"))) + 1) * self.file_bytes <= self.max_bytes:
                with atomic_write(path) as temporary, temporary.open("wb") as file:
                    np.save(file, stored, allow_pickle=False)
        parts = np.split(stored, np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1])
        return [
            torch.from_numpy(part.astype(np.float32).reshape(shape)).permute(0, 3, 1, 2)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def get_by_content(self, image: ImageArray) -> list[Tensor]:
        """Return the features of an image, stored under a hash of its pixels."""
        digest = hashlib.blake2b(np.ascontiguousarray(image).tobytes(), digest_size=16).hexdigest()
        return self.get(digest, lambda: image)

    def _read(self, path: Path) -> np.ndarray[tuple[int], np.dtype[np.float16]] | None:
        """Return the content of a file, None if there is none or it belongs to another network."""
        try:
            with path.open("rb") as file:
                array = np.load(file, allow_pickle=False)
        except (FileNotFoundError, ValueError, EOFError):
            return None
        fits = array.dtype == np.float16 and array.shape == (self.file_bytes // 2,)
        return array if fits else None

    @torch.no_grad()
    def _compute(self, image: ImageArray) -> list[Tensor]:
        pixels = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None].float() / 255.0
        stages: list[Tensor] = self.backbone(pixels.contiguous(memory_format=torch.channels_last))
        return stages[: self.stages]


def separate_backbone(model: TreeFormer, trained_stages: int = 0) -> ResNet:
    """Replace the backbone of a model by its trainable top.

    Args:
        model: the network, changed in place.
        trained_stages: number of stages, from the last one, that stay in the model.

    Returns:
        The whole backbone, whose first stages are frozen. `join_backbone` puts it back.
    """
    backbone = model.backbone
    backbone.requires_grad_(False)
    top = TopOfBackbone(backbone, trained_stages)
    top.requires_grad_(True)
    model.backbone = top  # type: ignore[assignment]  # it has the same interface
    return backbone


def join_backbone(model: TreeFormer, backbone: ResNet) -> None:
    """Undo `separate_backbone`.

    Args:
        model: the network, changed in place.
        backbone: the whole backbone.
    """
    model.backbone = backbone

"""The engine that runs a model folder with torch: a GPU in bfloat16, or the CPU in float32."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from treeformer.engines import RawPrediction, check_input
from treeformer.errors import TreeformerError
from treeformer.model_folder import ModelFolder
from treeformer.models.export import load_weights
from treeformer.models.inference import InferenceModel


class TorchEngine:
    """A model folder on a torch device; see `treeformer.engines.Engine`.

    Args:
        folder: an opened model.
        device: such as "cuda:1" or "cpu"; by default a GPU where there is one.
        threads: of the CPU; by default torch's own choice.
    """

    def __init__(self, folder: ModelFolder, device: str | None = None, threads: int | None = None) -> None:
        try:
            self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            model = load_weights(folder).to(self.device, memory_format=torch.channels_last)
        except RuntimeError as error:
            raise TreeformerError(f"device {device!r}: {str(error).splitlines()[0]}") from None
        if threads:
            torch.set_num_threads(threads)
        self.name, self.input_size = f"torch {self.device}", folder.config.input_size
        self._model = InferenceModel(model.eval(), folder.config.candidate_score, folder.config.peak_heat)

    @torch.inference_mode()
    def __call__(self, images: NDArray[np.uint8]) -> RawPrediction:
        """Predict (B,S,S,3) RGB pictures."""
        check_input(images, self.input_size)
        on_device = torch.from_numpy(np.ascontiguousarray(images)).to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            groups = self._model.in_groups(on_device)
        count = max((numbers[0].shape[1] for _, numbers in groups), default=0)
        batch = len(images)
        shapes = (batch, count), (batch, count, 2), (batch, count, count), (batch, count)
        result = RawPrediction(*(np.zeros(shape, dtype=np.float32) for shape in shapes))
        for rows, numbers in groups:
            for whole, part in zip(result, numbers, strict=True):
                part = part.float().cpu().numpy()
                whole[(rows, *(slice(size) for size in part.shape[1:]))] = part
        return result

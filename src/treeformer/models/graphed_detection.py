"""Detection as a CUDA graph, for batches of one shape: Python starts one recording instead of a thousand kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from treeformer.models.inference import InferenceModel
from treeformer.models.treeformer import Detection

WARM_UP_CALLS = 2  # what is chosen or allocated on first use has to be there before the recording


class GraphedDetection:
    """`InferenceModel.detect` for pictures of the shape of an example, in bfloat16; call it in inference mode.

    What a call gives is overwritten by the next one.
    """

    def __init__(self, model: InferenceModel, example: Tensor) -> None:
        self.model = model
        self.images = example.clone()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_CALLS):
                self._detect()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.found = self._detect()

    def __call__(self, images: Tensor) -> tuple[Detection, Tensor]:
        """What is found in (B,S,S,3) uint8 pictures, and the scores of the tokens."""
        self.images.copy_(images)
        self.graph.replay()
        return self.found

    def _detect(self) -> tuple[Detection, Tensor]:
        # The cache of cast weights would be recorded, and then be gone.
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            return self.model.detect(self.images)

"""Define the recipes: the model, its settings and its decodings. A run is a recipe trained on a domain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.tables.domains import DOMAINS, SIDE_PX, Domain

from treeformer.data.config import DataConfig
from treeformer.errors import TreeformerError
from treeformer.training.config import OptimizerConfig, TrainingConfig

Settings = Mapping[str, Any]
# More than any run takes: runs end by time.
STEPS = 1_000_000
# For batches of 16 to 64 images.
LEARNING_RATE = 3e-4


@dataclass(frozen=True)
class Recipe:
    """A model to train and its decodings.

    Attributes:
        model: key of `treeformer.training.registry.MODELS`.
        options: settings of the model that differ from its defaults.
        decodings: settings that differ during decoding, by name of the decoding.
        has_backbone: True if the model starts with the ResNet of the other models.
        validate_during_training: True if the run is validated repeatedly (for the curves of the four regimes), False
            if only at the end.
    """

    model: str
    options: Settings = field(default_factory=dict)
    decodings: Mapping[str, Settings] = field(default_factory=lambda: {"as trained": {}})
    has_backbone: bool = True
    validate_during_training: bool = False


# Without a loss of the whole tree, the pair loss has weight 2. The total weight of the edge losses is then 2 in every
# regime. (GGT does this itself.)
RECIPES: dict[str, Recipe] = {
    "plain": Recipe(
        "default",
        {"constraint": "none", "edge_weight": 2.0},
        {"unconstrained": {"constraint": "none"}, "test-time": {"constraint": "test"}},
        validate_during_training=True,
    ),
    "sfs": Recipe(
        "default",
        {"constraint": "both"},
        {"train-time": {"constraint": "train"}, "ours": {"constraint": "both"}},
        validate_during_training=True,
    ),
    "sfs-distance": Recipe("default", {"constraint": "both", "edge_cost": "distance"}),
    **{
        f"sfs-lambda{value}": Recipe("default", {"constraint": "both", "suppression": float(value)})
        for value in (2, 5, 100)
    },
    "likelihood": Recipe("default", {"constraint": "both", "tree_loss": "likelihood"}),
    "hinge": Recipe("default", {"constraint": "both", "tree_loss": "hinge"}),
    "two-stage": Recipe("two_stage", {}, {"mst": {"edges": "mst"}, "dijkstra": {"edges": "dijkstra"}}),
    # The classes are trunk, arm, and cane with side shoots.
    "two-stage-classes": Recipe(
        "two_stage", {"classes": 3}, {"mst": {"edges": "mst"}, "dijkstra": {"edges": "dijkstra"}}
    ),
    "hourglass-classes": Recipe("hourglass", {"classes": 3}, {"mst": {"edges": "mst"}}, has_backbone=False),
    "ggt": Recipe(
        "ggt", {"constraint": "none"}, {"ggt": {"constraint": "none"}, "ggt-test-time": {"constraint": "test"}}
    ),
    "ggt-sfs": Recipe("ggt", {"constraint": "both"}, {"ggt-sfs": {"constraint": "both"}}),
}
# Ablations of the default model: title of the row and the one changed setting, by name.
INGREDIENTS: dict[str, tuple[str, Settings]] = {
    "no-segments": ("no image features along segments", {"segment_channels": 0}),
    "no-context": ("no second prediction with edge context", {"num_harmonics": 0}),
    "no-auxiliary": ("no auxiliary losses", {"auxiliary_losses": False}),
    "no-false-nodes": ("false nodes excluded from the training tree", {"node_threshold": 1.1}),
}
RECIPES |= {
    f"sfs-{name}": Recipe("default", {"constraint": "both", **settings}) for name, (_, settings) in INGREDIENTS.items()
}
# Reruns of the same recipes together with other runs: the runs that share the GPU decide how many images fit into the
# training time. They are validated only at the end, so that all of them end together. Otherwise some would end while
# the next runs compile.
RERUNS = {name: f"{name}-rerun" for name in ("plain", "sfs")}
RECIPES |= {rerun: replace(RECIPES[name], validate_during_training=False) for name, rerun in RERUNS.items()}
# The setting of each model that limits the number of nodes.
NODE_BOUND = {"default": "tokens", "tiny": "tokens", "ggt": "max_nodes"}


@dataclass(frozen=True)
class Scale:
    """Size of images and models: real runs, or a rehearsal.

    Attributes:
        side_px: side of the images. A domain with its own size uses this only in a rehearsal.
        small: True in a rehearsal.
    """

    side_px: int = SIDE_PX
    validate_every: int = 300
    compile: bool = True
    precision: str = "bf16"
    small: bool = False


REAL = Scale()
# Tests the pipeline in minutes on a CPU. Its figures are meaningless.
REHEARSAL = Scale(side_px=64, validate_every=4, compile=False, precision="32", small=True)
SMALL_BACKBONE = {"backbone_blocks": (1, 1), "backbone_channels": 8, "frozen_stages": 0}
SMALL: dict[str, dict[str, Any]] = {
    "default": {},
    "two_stage": SMALL_BACKBONE | {"width": 16, "fine_width": 16},
    "hourglass": {"width": 32, "hourglass_stacks": 1, "hourglass_depth": 2},
    "ggt": SMALL_BACKBONE | {"width": 32, "layers": 1},
}


@dataclass(frozen=True, order=True)
class Run:
    """A recipe trained on a domain with one seed."""

    domain: str
    recipe: str
    seed: int

    @property
    def name(self) -> str:
        """Return the name of the run's files, as in `synthetic-sfs-seed0`."""
        return f"{self.domain}-{self.recipe}-seed{self.seed}"

    def config(self, data: Path, backbone: str = "", scale: Scale = REAL, workers: int = 0) -> TrainingConfig:
        """Return the training configuration.

        Args:
            data: folder of the prepared sets.
            backbone: safetensors file of ImageNet weights, "" for random weights.
            scale: size of images and models.
            workers: number of image processes.

        Returns:
            The configuration.
        """
        recipe, domain = RECIPES[self.recipe], DOMAINS[self.domain]
        if scale.small:
            domain = _small(domain, scale)
        options = dict(recipe.options)
        if recipe.model in ("two_stage", "hourglass"):
            options = dict(domain.two_stage) | options
        model = recipe.model
        if model in NODE_BOUND:
            options[NODE_BOUND[model]] = domain.tokens
        if scale.small:
            options |= SMALL[model]
            model = "tiny" if model == "default" else model
        return TrainingConfig(
            name=self.name,
            model=model,
            model_options=options,
            backbone_weights=backbone if recipe.has_backbone else "",
            data=replace(domain.images(data), workers=workers),
            optimizer=OptimizerConfig(learning_rate=LEARNING_RATE, warmup_steps=domain.warmup_steps),
            batch_size=domain.batch_size,
            steps=STEPS,
            validate_every=scale.validate_every
            if domain.validate_during_training and recipe.validate_during_training
            else STEPS,
            checkpoint_minutes=1.0,
            patience_epochs=0,
            score="topo_f1",
            precision=scale.precision,  # type: ignore[arg-type]
            compile=scale.compile,
            seed=self.seed,
        )

    @property
    def decode_options(self) -> dict[str, Any]:
        """Return the options of the model's `decode`. The two-stage method always gives one tree and has none."""
        return {"single_plant": DOMAINS[self.domain].one_plant} if RECIPES[self.recipe].model in NODE_BOUND else {}

    def test_images(self, config: TrainingConfig, scale: Scale = REAL) -> DataConfig:
        """Return the data configuration of the test images, as its `valid` part."""
        domain = DOMAINS[self.domain]
        return (_small(domain, scale) if scale.small else domain).test_images(config.data)


def _small(domain: Domain, scale: Scale) -> Domain:
    maps = {"node_search_px": 5.0} if domain.two_stage else {}
    counts = {"batch_size": 2, "valid_count": 2, "test_count": 3}
    if not domain.public_set or domain.source.grid_px:  # annotated nodes do not become fewer in a small image
        counts |= {"tokens": 96, "max_nodes": 80}
    return replace(domain, two_stage=maps, side_px=scale.side_px, warmup_steps=2, **counts)


def run_named(name: str) -> Run:
    """Return the run with a name, as given by `Run.name`."""
    for domain in DOMAINS:
        for recipe in RECIPES:
            seed = name.removeprefix(f"{domain}-{recipe}-seed")
            if seed != name and seed.isdigit():
                return Run(domain, recipe, int(seed))
    raise TreeformerError(f"there is no run {name!r}")


def edge_weight_total(config: TrainingConfig) -> float | None:
    """Return the sum of the weights of all edge losses, None for a model without edge losses."""
    from treeformer.training.registry import MODELS

    if config.model not in MODELS:
        return None
    settings = MODELS[config.model].settings()
    if not hasattr(settings, "edge_term_weights"):
        return None
    settings = replace(settings, **{key: config.model_options[key] for key in config.model_options})
    return float(settings.edge_weight * sum(settings.edge_term_weights))


def as_table(config: TrainingConfig) -> dict[str, Any]:
    """Return the configuration as a JSON object. Paths are reduced to their names."""
    table: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    table["backbone_weights"] = Path(config.backbone_weights).name
    for source in [*table["data"]["train"], *table["data"]["valid"]]:
        source["path"] = Path(source["path"]).name
    return table

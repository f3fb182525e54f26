"""The recipes: which model is trained how, and in which ways it is decoded. A run is a recipe on a domain."""

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
# More than any run takes: time alone ends it.
STEPS = 1_000_000
# Of the batches of 16 to 64 images that the domains have.
LEARNING_RATE = 3e-4


@dataclass(frozen=True)
class Recipe:
    """A model to train and the ways to decode it.

    options: settings of the model to change. decodings: by name, settings to change while it decodes.
    has_backbone: whether it begins with the ResNet that the others have. watched: validated on the way, for the curves
    of the four regimes, not at the end alone.
    """

    model: str
    options: Settings = field(default_factory=dict)
    decodings: Mapping[str, Settings] = field(default_factory=lambda: {"as trained": {}})
    has_backbone: bool = True
    watched: bool = False


# Without a loss of the whole tree that of the pairs counts twice: the total weight of the edge losses is 2 in every
# regime. (GGT sees to that itself.)
RECIPES: dict[str, Recipe] = {
    "plain": Recipe(
        "default",
        {"constraint": "none", "edge_weight": 2.0},
        {"unconstrained": {"constraint": "none"}, "test-time": {"constraint": "test"}},
        watched=True,
    ),
    "sfs": Recipe(
        "default",
        {"constraint": "both"},
        {"train-time": {"constraint": "train"}, "ours": {"constraint": "both"}},
        watched=True,
    ),
    "sfs-distance": Recipe("default", {"constraint": "both", "edge_cost": "distance"}),
    **{
        f"sfs-lambda{value}": Recipe("default", {"constraint": "both", "suppression": float(value)})
        for value in (2, 5, 100)
    },
    "likelihood": Recipe("default", {"constraint": "both", "tree_loss": "likelihood"}),
    "hinge": Recipe("default", {"constraint": "both", "tree_loss": "hinge"}),
    "two-stage": Recipe("two_stage", {}, {"mst": {"edges": "mst"}, "dijkstra": {"edges": "dijkstra"}}),
    # Trunk, arm, cane with its side shoots.
    "two-stage-classes": Recipe(
        "two_stage", {"classes": 3}, {"mst": {"edges": "mst"}, "dijkstra": {"edges": "dijkstra"}}
    ),
    "hourglass-classes": Recipe("hourglass", {"classes": 3}, {"mst": {"edges": "mst"}}, has_backbone=False),
    "ggt": Recipe(
        "ggt", {"constraint": "none"}, {"ggt": {"constraint": "none"}, "ggt-test-time": {"constraint": "test"}}
    ),
    "ggt-sfs": Recipe("ggt", {"constraint": "both"}, {"ggt-sfs": {"constraint": "both"}}),
}
# What the default model is made of, one thing changed at a time: by name, the row's title and the changed settings.
INGREDIENTS: dict[str, tuple[str, Settings]] = {
    "no-segments": ("no image along the segments", {"segment_channels": 0}),
    "no-context": ("no second answer that knows the other edges", {"num_harmonics": 0}),
    "no-auxiliary": ("no auxiliary losses", {"auxiliary_losses": False}),
    "no-false-nodes": ("false nodes not in the training tree", {"node_threshold": 1.1}),
}
RECIPES |= {
    f"sfs-{name}": Recipe("default", {"constraint": "both", **settings}) for name, (_, settings) in INGREDIENTS.items()
}
# The same once more, beside other runs: what shares the GPU with a run decides how many images its minutes hold. Not
# watched, so that all of them end together: one that is validated on the way ends beside the next, which compile.
AGAIN = {name: f"{name}-rerun" for name in ("plain", "sfs")}
RECIPES |= {again: replace(RECIPES[name], watched=False) for name, again in AGAIN.items()}
# What the setting of a model is called that bounds the number of nodes.
NODE_BOUND = {"default": "tokens", "tiny": "tokens", "ggt": "max_nodes"}


@dataclass(frozen=True)
class Scale:
    """How large the images and models are: the real thing, or a rehearsal.

    side_px: of the images; of a domain that has a size of its own, in a rehearsal alone.
    """

    side_px: int = SIDE_PX
    validate_every: int = 300
    compile: bool = True
    precision: str = "bf16"
    small: bool = False


REAL = Scale()
# Everything in small: minutes on a CPU, figures that mean nothing.
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
    """A recipe trained on a domain from one seed; `name` is what its files are called."""

    domain: str
    recipe: str
    seed: int

    @property
    def name(self) -> str:
        """As in `synthetic-sfs-seed0`."""
        return f"{self.domain}-{self.recipe}-seed{self.seed}"

    def config(self, data: Path, backbone: str = "", scale: Scale = REAL, workers: int = 0) -> TrainingConfig:
        """All that is needed to train it; `data` holds the prepared sets, `backbone` is a file of weights."""
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
            validate_every=scale.validate_every if domain.watched and recipe.watched else STEPS,
            checkpoint_minutes=1.0,
            patience_epochs=0,
            score="topo_f1",
            precision=scale.precision,  # type: ignore[arg-type]
            compile=scale.compile,
            seed=self.seed,
        )

    @property
    def decode_options(self) -> dict[str, Any]:
        """Of the model's `decode`. The two-stage method knows one tree alone and asks for none."""
        return {"single_plant": DOMAINS[self.domain].one_plant} if RECIPES[self.recipe].model in NODE_BOUND else {}

    def test_images(self, config: TrainingConfig, scale: Scale = REAL) -> DataConfig:
        """The images that the trained model is judged on."""
        domain = DOMAINS[self.domain]
        return (_small(domain, scale) if scale.small else domain).test_images(config.data)


def _small(domain: Domain, scale: Scale) -> Domain:
    maps = {"node_search_px": 5.0} if domain.two_stage else {}
    counts = {"tokens": 96, "max_nodes": 80, "batch_size": 2, "valid_count": 2, "test_count": 3}
    return replace(domain, two_stage=maps, side_px=scale.side_px, warmup_steps=2, **counts)


def run_named(name: str) -> Run:
    """The run of a name, as `Run.name` gives it."""
    for domain in DOMAINS:
        for recipe in RECIPES:
            seed = name.removeprefix(f"{domain}-{recipe}-seed")
            if seed != name and seed.isdigit():
                return Run(domain, recipe, int(seed))
    raise TreeformerError(f"no run is called {name!r}")


def edge_weight_total(config: TrainingConfig) -> float | None:
    """The sum of the weights of all edge losses; None for a model that has none."""
    from treeformer.training.registry import MODELS

    if config.model not in MODELS:
        return None
    settings = MODELS[config.model].settings()
    if not hasattr(settings, "edge_term_weights"):
        return None
    settings = replace(settings, **{key: config.model_options[key] for key in config.model_options})
    return float(settings.edge_weight * sum(settings.edge_term_weights))


def as_table(config: TrainingConfig) -> dict[str, Any]:
    """The configuration as JSON has it; of files and folders the names alone, not where they lie."""
    table: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    table["backbone_weights"] = Path(config.backbone_weights).name
    for source in [*table["data"]["train"], *table["data"]["valid"]]:
        source["path"] = Path(source["path"]).name
    return table

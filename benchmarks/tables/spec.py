"""Define the tables: their rows (a training run and a decoding), domains, seeds and columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.tables.domains import DOMAINS
from benchmarks.tables.recipes import INGREDIENTS, RERUNS, Run


@dataclass(frozen=True)
class Column:
    """A metric over the test set and its format.

    Attributes:
        metric: key of the metric.
        heading: column heading.
        form: format of the number.
        scale: factor applied before formatting.
        interval: if True, half the width of the 95 % interval is shown too.
    """

    metric: str
    heading: str
    form: str = ".3f"
    scale: float = 1.0
    interval: bool = True


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        name: key of the row, also in `published.yaml`.
        title: text of the first column.
        recipe: key of `RECIPES`.
        decoding: key of the recipe's decodings.
        seed: replaces the table's seeds, if given.
    """

    name: str
    title: str
    recipe: str
    decoding: str
    seed: int | None = None


@dataclass(frozen=True)
class Table:
    """A table. Each row is the mean of its runs, per domain.

    Attributes:
        reference: name of the row with which the others are compared.
        rerun_domains: domains in which the recipes in `RERUNS` were trained again together with the table's other runs.
        pool_reruns: if True, rows are means over the first runs and the reruns.
        note: text below the table.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    domains: tuple[str, ...]
    reference: str
    seeds: tuple[int, ...] = (0,)
    extra_columns: tuple[Column, ...] = ()
    rerun_domains: tuple[str, ...] = ()
    pool_reruns: bool = False
    note: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the common columns and those of this table."""
        return COLUMNS + self.extra_columns

    def seeds_of(self, domain: str, row: Row) -> tuple[int, ...]:
        """Return the seeds over which a row is averaged."""
        return (DOMAINS[domain].seeds or self.seeds) if row.seed is None else (row.seed,)

    def run_of(self, domain: str, row: Row, seed: int) -> Run:
        """Return the run that a row shows for a domain and a seed."""
        return Run(domain, RERUNS.get(row.recipe, row.recipe) if domain in self.rerun_domains else row.recipe, seed)

    def runs_for(self, domain: str, row: Row) -> list[Run]:
        """Return the runs over which a row is averaged."""
        first = [self.run_of(domain, row, seed) for seed in self.seeds_of(domain, row)]
        return first + [replace(run, recipe=RERUNS[run.recipe]) for run in first if self.pool_reruns]

    def runs_of(self, domain: str) -> list[Run]:
        """Return the runs of a domain without repetition."""
        return list(dict.fromkeys(run for row in self.rows for run in self.runs_for(domain, row)))

    def comparable_groups(self, domain: str) -> list[list[Run]]:
        """Return the runs of a domain in groups. Within a group, all runs must have had the same conditions."""
        runs = self.runs_of(domain)
        reruns = [run for run in runs if run.recipe in RERUNS.values()]
        return [[run for run in runs if run not in reruns], reruns] if self.pool_reruns else [runs]

    def runs(self) -> list[Run]:
        """Return all runs without repetition, sorted by seed so that a first table is complete early."""
        return sorted((run for domain in self.domains for run in self.runs_of(domain)), key=lambda run: run.seed)


COLUMNS = (
    Column("smd_paper", "SMD (paper code)", ".2e"),
    Column("smd", "SMD (exact)", ".2e"),
    Column("topo_paper_precision", "TOPO P (paper code)"),
    Column("topo_paper_recall", "R"),
    Column("topo_paper_f1", "F1"),
    Column("topo_precision", "TOPO P (corrected)"),
    Column("topo_recall", "R"),
    Column("topo_f1", "F1"),
    Column("tree_of_edges_rate", "trees % (paper code)", ".1f", 100.0),
    Column("tree_rate", "trees %", ".1f", 100.0),
    Column("forest_rate", "forests %", ".1f", 100.0),
)
MAP_ERRORS = (
    Column("node_map_error", "MSE nodes", ".2e"),
    Column("direction_map_error", "MSE directions", ".2e"),
)
# A property of the run, not of a test image: in the same time, a slower step sees fewer images.
IMAGES_SEEN = Column("images_seen", "training images seen", ",.0f", interval=False)
NODES_EDGES_AND_IMAGES = (Column("node_f1", "node F1"), Column("edge_f1", "edge F1"), IMAGES_SEEN)

UNCONSTRAINED = Row("unconstrained", "unconstrained", "plain", "unconstrained")
TEST_TIME = Row("test-time", "test-time constraint", "plain", "test-time")
TRAIN_TIME = Row("train-time", "train-time constraint", "sfs", "train-time")
OURS = Row("ours", "ours (SFS and spanning tree)", "sfs", "ours")

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="table1",
            title="The four regimes and the two-stage method (the paper's Table 1)",
            rows=(Row("two-stage", "two-stage", "two-stage", "mst"), UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS),
            domains=("synthetic", "osr-roots", "barley-roots", "grapevine"),
            reference="ours",
            seeds=(0, 1),
            extra_columns=NODES_EDGES_AND_IMAGES,
            note="The paper's root set (Arabidopsis) is private. Its figures are shown next to other root sets.",
        ),
        Table(
            name="train-time",
            title="The constraint in training only (the paper's Table S5)",
            rows=(UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS),
            domains=("synthetic", "osr-roots", "barley-roots", "grapevine"),
            reference="ours",
            seeds=(0, 1),
            note="Same runs as in table1.",
        ),
        Table(
            name="vinet",
            title="Variants of the two-stage method (the paper's Table S2)",
            rows=(
                Row("fpn", "FPN, multi-class, MST", "two-stage-classes", "mst"),
                Row("hourglass", "hourglass, multi-class, MST", "hourglass-classes", "mst"),
                Row("binary", "FPN, binary, MST", "two-stage", "mst"),
                Row("dijkstra", "FPN, multi-class, Dijkstra", "two-stage-classes", "dijkstra"),
                Row("binary-dijkstra", "FPN, binary, Dijkstra", "two-stage", "dijkstra"),
            ),
            domains=("vine",),
            reference="fpn",
            extra_columns=NODES_EDGES_AND_IMAGES + MAP_ERRORS,
            note="The classes are trunk, arm, and cane with side shoots, from the grammar. The map errors of the "
            "binary rows refer to other maps than those of the multi-class rows. The hourglass has no ResNet and "
            "starts from random weights. The paper's figures are for the grapevine set.",
        ),
        Table(
            name="mst-dijkstra",
            title="Graph algorithms of the two-stage method, by domain",
            rows=(
                Row("mst", "minimum spanning tree", "two-stage", "mst"),
                Row("dijkstra", "shortest paths to the root", "two-stage", "dijkstra"),
            ),
            domains=("synthetic", "osr-roots", "barley-roots", "grapevine"),
            reference="mst",
            seeds=(0, 1),
            note="Same runs as in table1. The paper compares the two on the grapevine set, with several classes (see "
            "vinet).",
        ),
        Table(
            name="ggt",
            title="GGT, an autoregressive generator (the paper's Table S4)",
            rows=(
                Row("ggt", "GGT", "ggt", "ggt"),
                Row("ggt-test-time", "GGT, test-time constraint", "ggt", "ggt-test-time"),
                Row("ggt-sfs", "GGT with SFS", "ggt-sfs", "ggt-sfs"),
                OURS,
            ),
            domains=("synthetic",),
            reference="ggt-test-time",
        ),
        Table(
            name="distance-cost",
            title="Cost of the spanning tree: y⁻, or y⁻ times the distance (the supplement's Sec. E.2)",
            rows=(
                Row("margin", "y⁻ (ours)", "sfs", "ours"),
                Row("distance", "y⁻ · distance", "sfs-distance", "as trained"),
            ),
            domains=("synthetic", "osr-roots", "grapevine"),
            reference="margin",
            extra_columns=(IMAGES_SEEN,),
            rerun_domains=("synthetic",),
            note="The paper's figures are for the grapevine set.",
        ),
        Table(
            name="lambda",
            title="Λ of the SFS layer (the paper's Table S6)",
            rows=(
                Row("2", "Λ = 2", "sfs-lambda2", "as trained"),
                Row("5", "Λ = 5", "sfs-lambda5", "as trained"),
                Row("10", "Λ = 10 (ours)", "sfs", "ours"),
                Row("100", "Λ = 100", "sfs-lambda100", "as trained"),
            ),
            domains=("synthetic", "osr-roots", "grapevine"),
            reference="10",
            extra_columns=(IMAGES_SEEN,),
            rerun_domains=("synthetic",),
            note="The paper's figures are for the grapevine set.",
        ),
        Table(
            name="losses",
            title="The second edge loss: SFS, or another loss of the whole tree",
            rows=(
                Row("pairs", "none (pair loss doubled)", "plain", "test-time"),
                Row("sfs", "SFS (ours)", "sfs", "ours"),
                Row("likelihood", "matrix-tree likelihood", "likelihood", "as trained"),
                Row("hinge", "cost-augmented hinge", "hinge", "as trained"),
            ),
            domains=("synthetic", "osr-roots", "barley-roots"),
            reference="pairs",
            seeds=(0, 1),
            extra_columns=NODES_EDGES_AND_IMAGES,
            rerun_domains=("synthetic", "osr-roots", "barley-roots"),
            note="All rows are decoded by the same spanning forest. All rows have the same training time, not the same "
            "number of steps. The paper has no such figures.",
        ),
        Table(
            name="sfs",
            title="The effect of SFS over all runs of both regimes",
            rows=(TEST_TIME, OURS),
            domains=("synthetic", "osr-roots", "barley-roots"),
            reference="test-time",
            seeds=(0, 1),
            extra_columns=NODES_EDGES_AND_IMAGES,
            pool_reruns=True,
            note="The runs are those of table1, then those of losses, each with seed 0 and seed 1.",
        ),
        Table(
            name="regimes",
            title="The four regimes on small drawings",
            rows=(UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS),
            domains=("small-drawings",),
            reference="ours",
            extra_columns=NODES_EDGES_AND_IMAGES,
            note="Same runs and test images as in ingredients. The paper has no such figures.",
        ),
        Table(
            name="ingredients",
            title="Ablation of the default model",
            rows=(
                Row("full", "full", "sfs", "ours"),
                Row("full-rerun", "full (another seed)", "sfs", "ours", seed=1),
                *(Row(name, title, f"sfs-{name}", "as trained") for name, (title, _) in INGREDIENTS.items()),
                Row("no-sfs", "no SFS, spanning tree at test time", "plain", "test-time"),
            ),
            domains=("small-drawings",),
            reference="full",
            extra_columns=NODES_EDGES_AND_IMAGES,
            note="All rows have the same training time, not the same number of steps, so a slower step counts against "
            "a row. The test images are the first of the test split with at most 64 nodes (two thirds of all "
            "drawings), the same for every row. Training images with more nodes are skipped. The two rows `full` "
            "differ only in the seed: a difference of that size is not significant. The model of that commit had a "
            "heat map with 4 px per cell, a frozen layer1 and points refined layer by layer. The paper has no such "
            "figures.",
        ),
    )
}


def all_runs() -> list[Run]:
    """Return every run of every table, without repetition."""
    return list(dict.fromkeys(run for table in TABLES.values() for run in table.runs()))

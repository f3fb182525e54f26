"""What each table shows: rows, each a trained run decoded in one way, for some domains and seeds; and columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.tables.recipes import AGAIN, INGREDIENTS, Run


@dataclass(frozen=True)
class Column:
    """A metric over the test set, and how it is written; `interval`: with half its 95 % interval."""

    metric: str
    heading: str
    form: str = ".3f"
    scale: float = 1.0
    interval: bool = True


@dataclass(frozen=True)
class Row:
    """A row of a table; `name` is also that of the paper's figures. seed: this one, instead of the table's."""

    name: str
    title: str
    recipe: str
    decoding: str
    seed: int | None = None


@dataclass(frozen=True)
class Table:
    """A table: rows for each domain, the means of all their runs.

    reference: the row that the others are compared with. again: domains in which what `AGAIN` names was trained again
    beside the table's other runs. both: its rows are means of the first runs and of those again.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    domains: tuple[str, ...]
    reference: str
    seeds: tuple[int, ...] = (0,)
    extra_columns: tuple[Column, ...] = ()
    again: tuple[str, ...] = ()
    both: bool = False
    note: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of every table and its own."""
        return COLUMNS + self.extra_columns

    def seeds_of(self, row: Row) -> tuple[int, ...]:
        """The seeds whose mean a row is."""
        return self.seeds if row.seed is None else (row.seed,)

    def run_of(self, domain: str, row: Row, seed: int) -> Run:
        """What a row shows of a domain and a seed."""
        return Run(domain, AGAIN.get(row.recipe, row.recipe) if domain in self.again else row.recipe, seed)

    def runs_for(self, domain: str, row: Row) -> list[Run]:
        """The runs whose mean a row is."""
        first = [self.run_of(domain, row, seed) for seed in self.seeds_of(row)]
        return first + [replace(run, recipe=AGAIN[run.recipe]) for run in first if self.both]

    def runs_of(self, domain: str) -> list[Run]:
        """All that have to be trained on a domain, each once."""
        return list(dict.fromkeys(run for row in self.rows for run in self.runs_for(domain, row)))

    def alike(self, domain: str) -> list[list[Run]]:
        """The runs of a domain that are compared with each other, and so must have had the same."""
        runs = self.runs_of(domain)
        again = [run for run in runs if run.recipe in AGAIN.values()]
        return [[run for run in runs if run not in again], again] if self.both else [runs]

    def runs(self) -> list[Run]:
        """All that have to be trained, each once, seed by seed so that a first table is whole early."""
        return sorted((run for domain in self.domains for run in self.runs_of(domain)), key=lambda run: run.seed)


COLUMNS = (
    Column("smd_paper", "SMD as coded", ".2e"),
    Column("smd", "SMD exact", ".2e"),
    Column("topo_paper_precision", "TOPO P as coded"),
    Column("topo_paper_recall", "R"),
    Column("topo_paper_f1", "F1"),
    Column("topo_precision", "TOPO P corrected"),
    Column("topo_recall", "R"),
    Column("topo_f1", "F1"),
    Column("tree_of_edges_rate", "trees % as coded", ".1f", 100.0),
    Column("tree_rate", "trees %", ".1f", 100.0),
    Column("forest_rate", "forests %", ".1f", 100.0),
)
MAP_ERRORS = (
    Column("node_map_error", "MSE nodes", ".2e"),
    Column("direction_map_error", "MSE directions", ".2e"),
)
# Of a run, not of a test image: in the same minutes a slower step sees fewer of them.
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
            note="The paper's root set (Arabidopsis) is private: its figures stand beside other roots.",
        ),
        Table(
            name="train-time",
            title="What the constraint does in training alone (the paper's Table S5)",
            rows=(UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS),
            domains=("synthetic", "osr-roots", "barley-roots", "grapevine"),
            reference="ours",
            seeds=(0, 1),
            note="The runs are those of table1.",
        ),
        Table(
            name="vinet",
            title="The two-stage method and what it was made from (the paper's Table S2)",
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
            note="Classes: trunk, arm, cane with side shoots, from the grammar. The errors of the binary row are of "
            "other maps than those of the multi-class rows. The hourglass has no ResNet and starts from random "
            "weights. The paper's figures are of the grapevine set.",
        ),
        Table(
            name="mst-dijkstra",
            title="How the two-stage method joins its nodes, by domain",
            rows=(
                Row("mst", "minimum spanning tree", "two-stage", "mst"),
                Row("dijkstra", "shortest paths to the root", "two-stage", "dijkstra"),
            ),
            domains=("synthetic", "osr-roots", "barley-roots"),
            reference="mst",
            seeds=(0, 1),
            note="The runs are those of table1. The paper compares the two on the grapevine set alone (see vinet).",
        ),
        Table(
            name="ggt",
            title="An autoregressive generator (the paper's Table S4)",
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
            title="The spanning tree's cost: y⁻, or y⁻ times the distance (the supplement's Sec. E.2)",
            rows=(
                Row("margin", "y⁻ (ours)", "sfs", "ours"),
                Row("distance", "y⁻ · distance", "sfs-distance", "as trained"),
            ),
            domains=("synthetic", "osr-roots"),
            reference="margin",
            extra_columns=(IMAGES_SEEN,),
            again=("synthetic",),
            note="The paper's figures are of the grapevine set, which is not here.",
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
            domains=("synthetic", "osr-roots"),
            reference="10",
            extra_columns=(IMAGES_SEEN,),
            again=("synthetic",),
            note="The paper's figures are of the grapevine set, which is not here.",
        ),
        Table(
            name="losses",
            title="What the second edge loss is: SFS, or another loss of the whole tree",
            rows=(
                Row("pairs", "none: that of the pairs counts twice", "plain", "test-time"),
                Row("sfs", "SFS (ours)", "sfs", "ours"),
                Row("likelihood", "matrix-tree likelihood", "likelihood", "as trained"),
                Row("hinge", "cost-augmented hinge", "hinge", "as trained"),
            ),
            domains=("synthetic", "osr-roots", "barley-roots"),
            reference="pairs",
            seeds=(0, 1),
            extra_columns=NODES_EDGES_AND_IMAGES,
            again=("synthetic", "osr-roots", "barley-roots"),
            note="All are decoded by the same spanning forest. Every row has the same time, not the same number of "
            "steps. The paper has no such figures.",
        ),
        Table(
            name="sfs",
            title="What SFS brings, over all runs of both regimes",
            rows=(TEST_TIME, OURS),
            domains=("synthetic", "osr-roots", "barley-roots"),
            reference="test-time",
            seeds=(0, 1),
            extra_columns=NODES_EDGES_AND_IMAGES,
            both=True,
            note="The runs are those of table1 and then those of losses, each time seed 0 and seed 1.",
        ),
        Table(
            name="regimes",
            title="The four regimes on small drawings",
            rows=(UNCONSTRAINED, TEST_TIME, TRAIN_TIME, OURS),
            domains=("small-drawings",),
            reference="ours",
            extra_columns=NODES_EDGES_AND_IMAGES,
            note="The runs are those of ingredients, with the same test images. The paper has no such figures.",
        ),
        Table(
            name="ingredients",
            title="What each ingredient of the default model brings",
            rows=(
                Row("full", "full", "sfs", "ours"),
                Row("full-rerun", "full (another seed)", "sfs", "ours", seed=1),
                *(Row(name, title, f"sfs-{name}", "as trained") for name, (title, _) in INGREDIENTS.items()),
                Row("no-sfs", "no SFS, spanning tree at test time", "plain", "test-time"),
            ),
            domains=("small-drawings",),
            reference="full",
            extra_columns=NODES_EDGES_AND_IMAGES,
            note="Every row has the same time, not the same number of steps: what slows a step has to pay for it. Test "
            "images are the first of the test split that have at most 64 nodes (as two thirds of all drawings have), "
            "the same for every row; training images with more nodes are passed over. The two rows `full` differ in "
            "the seed alone: a difference that is no larger says nothing. The model of that commit had a heat map of "
            "4 px a cell, a frozen layer1 and points refined layer by layer. The paper has no such figures.",
        ),
    )
}


def all_runs() -> list[Run]:
    """Every run of every table, once."""
    return list(dict.fromkeys(run for table in TABLES.values() for run in table.runs()))

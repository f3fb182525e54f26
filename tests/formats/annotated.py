"""Strategies for fully annotated skeletons, and a comparison of skeletons as graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.strategies import coordinates, forests
from treeformer import Axis, AxisFunction, Plant, Skeleton

names = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(names, json_values, max_size=3)
properties = st.dictionaries(names, names, max_size=3)
numbers = st.floats(allow_nan=False, allow_infinity=False)
functions = st.lists(numbers, max_size=4).flatmap(
    lambda samples: st.builds(
        AxisFunction,
        name=names,
        samples=st.just(tuple(samples)),
        domain=st.sampled_from(["polyline", "uniform", "length"]),
        origin=names,
        positions=st.none() | st.just(tuple(samples[::-1])),
    )
)


@st.composite
def annotated(draw: st.DrawFn) -> Skeleton:
    """Draw a forest with all optional fields of a Skeleton: axes, plants, an image and metadata."""
    skeleton = draw(forests())
    changes: dict[str, Any] = {
        "plant": draw(st.none() | st.just(skeleton.plant_of_node)),
        "plant_records": draw(
            st.lists(st.builds(Plant, id=names, label=names, properties=properties, metadata=objects), max_size=2)
        ),
        "image_name": draw(st.none() | names),
        "metadata": draw(objects),
        "nodes": skeleton.nodes * draw(st.sampled_from([1.0, 1 / 3, 1e-300, 4e4])),
    }
    if draw(st.booleans()):
        inferred = skeleton.axes
        changes["edge_axis"] = np.where(np.arange(len(skeleton.edges)) % 7 == 6, -1, skeleton.edge_axis)
        changes["axes"] = [
            Axis(
                nodes=axis.nodes,
                parent=axis.parent,
                plant=axis.plant,
                id=draw(names),
                label=draw(names),
                accession=draw(names),
                properties=draw(properties),
                functions=tuple(draw(st.lists(functions, max_size=2))),
                metadata=draw(objects),
            )
            for axis in inferred
        ]
    return skeleton.replace(**changes)


@st.composite
def distinct_forests(draw: st.DrawFn) -> Skeleton:
    """Draw a forest without coinciding nodes, for formats that join lines at common points."""
    skeleton = draw(forests())
    points = st.lists(st.tuples(coordinates, coordinates), min_size=len(skeleton), max_size=len(skeleton), unique=True)
    return skeleton.replace(nodes=np.asarray(draw(points), dtype=float).reshape(-1, 2) + 0.0)


def graph(skeleton: Skeleton, *, values: bool = True) -> dict[str, Any]:
    """Return a description of the graph that does not depend on the order of nodes and edges.

    Nodes are identified by their coordinates, so no two may coincide. Unknown radii (NaN) are omitted.
    """
    at = [tuple(point) for point in skeleton.nodes.tolist()]
    assert len(set(at)) == len(at)
    found: dict[str, Any] = {
        "nodes": set(at),
        "edges": {frozenset((at[u], at[v])) for u, v in skeleton.edges.tolist()},
        "roots": {at[root] for root in skeleton.roots.tolist()},
    }
    if values:
        radius = skeleton.radius
        found["radius"] = {} if radius is None else {p: r for p, r in zip(at, radius.tolist(), strict=True) if r == r}
        score = skeleton.node_score
        found["node_score"] = {} if score is None else dict(zip(at, score.tolist(), strict=True))
        edge_score = [] if skeleton.edge_score is None else skeleton.edge_score.tolist()
        found["edge_score"] = {
            frozenset((at[u], at[v])): s for (u, v), s in zip(skeleton.edges.tolist(), edge_score, strict=False)
        }
    return found


def plants(skeleton: Skeleton) -> set[frozenset[Any]]:
    """Return the coordinates of the nodes of each plant."""
    return {frozenset(map(tuple, plant.nodes.tolist())) for plant in skeleton.plants}

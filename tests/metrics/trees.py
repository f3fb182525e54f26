"""Random trees, and typical errors of predictions."""

from __future__ import annotations

import numpy as np

from treeformer import Skeleton

SIZE = (512, 512)


def random_tree(nodes: int, seed: int, size: tuple[int, int] = SIZE) -> Skeleton:
    """Return a tree that grows upwards from the bottom, with bends, forks and branches of all lengths."""
    rng = np.random.default_rng(seed)
    width, height = size
    step = 0.45 * min(size) / np.sqrt(nodes)
    points, heading, parents = [(width / 2, 0.95 * height)], [-np.pi / 2], [-1]
    children = [0]
    while len(points) < nodes:
        base = int(rng.integers(max(0, len(points) - 1 - nodes // 3), len(points)))
        if children[base] == 3:
            continue
        turn = rng.normal(0, 0.35) + (rng.choice([-0.8, 0.8]) if children[base] else 0.0)
        angle = heading[base] + turn
        length = step * rng.uniform(0.6, 1.5)
        point = (points[base][0] + length * np.cos(angle), points[base][1] + length * np.sin(angle))
        if not (0 < point[0] < width and 0 < point[1] < height):
            heading[base] += 0.5
            continue
        children[base] += 1
        children.append(0)
        points.append(point)
        heading.append(angle)
        parents.append(base)
    return Skeleton.from_parents(points, parents, image_size=size)


def jittered(tree: Skeleton, sigma_px: float, seed: int = 0) -> Skeleton:
    noise = np.random.default_rng(seed).normal(0, 1, tree.nodes.shape)
    return tree.replace(nodes=tree.nodes + sigma_px * noise)


def without_subtree(tree: Skeleton, node: int) -> Skeleton:
    """Return the tree without a node and its descendants."""
    removed = {node}
    for child in tree.traversal.order:
        if tree.parents[child] in removed:
            removed.add(child)
    kept = [k for k in range(len(tree)) if k not in removed]
    number = {old: new for new, old in enumerate(kept)}
    edges = [(number[u], number[v]) for u, v in tree.edges.tolist() if u in number and v in number]
    return Skeleton(tree.nodes[kept], edges, image_size=tree.image_size)


def rewired(tree: Skeleton, node: int, parent: int) -> Skeleton:
    """Return the tree with a node attached to another parent."""
    edges = [e for e in tree.edges.tolist() if sorted(e) != sorted((node, int(tree.parents[node])))]
    return Skeleton(tree.nodes, [*edges, (parent, node)], image_size=tree.image_size)


def renumbered(graph: Skeleton, seed: int = 0) -> Skeleton:
    """Return the same graph with its nodes, edges and their directions shuffled."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(graph))
    edges = np.argsort(order)[graph.edges]
    flip = rng.random(len(edges)) < 0.5
    edges[flip] = edges[flip][:, ::-1]
    return Skeleton(graph.nodes[order], edges[rng.permutation(len(edges))], image_size=graph.image_size)


def subdivided(graph: Skeleton) -> Skeleton:
    """Return the same curves with a node in the middle of every edge."""
    middle = graph.nodes[graph.edges].mean(axis=1)
    new = len(graph) + np.arange(len(graph.edges))
    edges = np.concatenate([np.stack([graph.edges[:, side], new], axis=1) for side in (0, 1)])
    return Skeleton(np.concatenate([graph.nodes, middle]), edges, image_size=graph.image_size)


def faulty_pairs(nodes: int, seed: int) -> list[tuple[Skeleton, Skeleton]]:
    """Return pairs (prediction, ground truth): moved nodes, a missing branch, a wrong parent, and a combination."""
    tree = random_tree(nodes, seed)
    rng = np.random.default_rng(seed + 1)
    cut = int(rng.integers(nodes // 2, nodes))
    wrong = rewired(tree, nodes - 1, int(rng.integers(0, nodes // 2)))
    return [
        (jittered(tree, 1.0, seed), tree),
        (jittered(tree, 4.0, seed), tree),
        (without_subtree(tree, cut), tree),
        (wrong, tree),
        (jittered(without_subtree(tree, cut), 2.0, seed), tree),
    ]

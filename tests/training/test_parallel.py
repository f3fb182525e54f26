"""Several crops at once: the same gradients as one after the other, in a repeatable order of summation."""

from __future__ import annotations

import threading

import pytest
import torch

from treeformer.models import TreeFormer, TreeFormerConfig
from treeformer.training.parallel import MAX_WORKERS, Replicas, Workers, usable_workers


def small_network() -> TreeFormer:
    """Return a network whose weights are the same in every call."""
    torch.manual_seed(5)
    return TreeFormer(
        TreeFormerConfig.tiny(backbone_blocks=(1, 1), decoder_layers=1, relation_min_stride=16, tokens=24)
    )


def squared_distance(network, number):
    """Add the gradient of the squared distance of all weights from a number. Return the distance."""
    loss = sum((p - number).square().sum() for p in network.parameters() if p.requires_grad)
    loss.backward()
    return float(loss.detach())


@pytest.mark.parametrize("count", [2, 3])
def test_gradients_of_replicas_add_up_to_those_of_one_network(count):
    expected = small_network()
    loss = sum(squared_distance(expected, number) for number in range(5))
    network = small_network()
    replicas = Replicas(network, Workers(count))
    assert replicas.backward(squared_distance, range(5)) == pytest.approx(loss)
    for one, two in zip(network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)
    assert all(p.grad is None for replica in replicas.replicas[1:] for p in replica.parameters())
    first = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    replicas.backward(squared_distance, range(5))
    assert all(one.equal(p.grad) for one, p in zip(first, network.parameters(), strict=True)), "repeatable to the bit"


def test_replicas_follow_the_weights_of_the_network():
    network = small_network()
    replicas = Replicas(network, Workers(2))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(2.0)
    assert all((p == 2.0).all() for p in replicas.replicas[1].parameters())
    network.load_state_dict(small_network().state_dict())
    pairs = zip(network.parameters(), replicas.replicas[1].parameters(), strict=True)
    assert all(one.equal(two) and one is not two for one, two in pairs)
    assert all(one is two for one, two in zip(network.buffers(), replicas.replicas[1].buffers(), strict=True))


def test_workers_run_at_the_same_time_and_keep_the_order():
    both = threading.Barrier(2, timeout=60)

    def wait(number: int) -> int:
        both.wait()  # an error unless two calls run at the same time
        return number

    assert list(Workers(2).map(wait, range(4))) == [0, 1, 2, 3]
    assert list(Workers(1).map(lambda n: (n, threading.current_thread()), [3])) == [(3, threading.main_thread())]
    assert 1 <= usable_workers() <= MAX_WORKERS

"""Strongly connected components, without recursion, for graphs of any size."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def components(edges: Mapping[Node, Sequence[Node]]) -> Iterator[list[Node]]:
    """Those with more than one node, each of which lies on a cycle (Tarjan's algorithm)."""
    order: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    on_path: set[Node] = set()
    for root in edges:
        if root in order:
            continue
        work = [(root, iter(edges[root]))]
        order[root] = lowest[root] = len(order)
        path.append(root)
        on_path.add(root)
        while work:
            node, successors = work[-1]
            successor = next((found for found in successors if found not in order or found in on_path), None)
            if successor is None:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    yield from _component(node, path, on_path)
            elif successor in order:
                lowest[node] = min(lowest[node], order[successor])
            else:
                order[successor] = lowest[successor] = len(order)
                path.append(successor)
                on_path.add(successor)
                work.append((successor, iter(edges.get(successor, ()))))


def _component(node: Node, path: list[Node], on_path: set[Node]) -> Iterator[list[Node]]:
    found: list[Node] = []
    while not found or found[-1] != node:
        found.append(path.pop())
        on_path.discard(found[-1])
    if len(found) > 1:
        yield found

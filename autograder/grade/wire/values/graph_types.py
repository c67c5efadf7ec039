"""The codecs of networkx's graphs: nodes, edges, their attributes, and the order of each node's neighbours."""

from __future__ import annotations

import functools
from typing import Any

from autograder.grade.wire.values.codec import Codec, Part

KINDS = ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph")
GRAPH_TAGS = tuple(f"networkx.{kind}" for kind in KINDS)


@functools.cache
def graph_codecs() -> dict[type, Codec]:
    """Returns the codecs of graphs of exactly networkx's types; imports networkx.

    A graph of the learner's objects crosses as a stand-in, as these objects do.
    """
    import networkx

    kinds = [getattr(networkx, name) for name in KINDS]
    return {
        kind: Codec(tag, _graph_parts, functools.partial(_graph, kind), _write_graph, or_reference=True)
        for kind, tag in zip(kinds, GRAPH_TAGS, strict=True)
    }


def _graph_parts(graph: Any, part: Part) -> list[Any]:
    edges = graph.edges(keys=True, data=True) if graph.is_multigraph() else graph.edges(data=True)
    neighbours = [list(others) for _, others in graph.adjacency()]
    before = [list(graph.pred[node]) for node in graph] if graph.is_directed() else None
    nodes = [(node, dict(known)) for node, known in graph.nodes(data=True)]
    return [part(dict(graph.graph)), part(nodes), part([tuple(edge) for edge in edges]), part(neighbours), part(before)]


def _graph(kind: Any, attributes: Any, nodes: Any, edges: Any, neighbours: Any, before: Any) -> Any:
    """Returns the graph, made by networkx; any error means that the parts are no graph."""
    graph = kind()
    graph.graph.update(attributes)
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    if len(graph) != len(nodes):
        raise ValueError("an edge leads to a node that is not there")
    # Searches visit neighbours in their order, which is not that of all edges: networkx keeps it in these attributes (3.6).
    graph._adj = _ordered(graph._adj, neighbours)
    if before is not None:
        graph._pred = _ordered(graph._pred, before)
    return graph


def _ordered(adjacency: dict[Any, dict[Any, Any]], order: list[list[Any]]) -> dict[Any, dict[Any, Any]]:
    found = {
        node: {other: known[other] for other in others}
        for (node, known), others in zip(adjacency.items(), order, strict=True)
    }
    if any(len(found[node]) != len(known) for node, known in adjacency.items()):
        raise ValueError("a node has other neighbours than the edges say")
    return found


def _write_graph(target: Any, new: Any) -> None:
    vars(target).clear()
    vars(target).update(vars(new))

"""One run followed statement by statement: tensors, graph, saved tensors, memory and writes."""

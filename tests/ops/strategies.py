"""Random graphs and features of every size, for hypothesis."""

import torch
from hypothesis import settings
from hypothesis import strategies as st

from meanmax import Graph

from .cases import FORMS, LOWER

bounded = settings(derandomize=True, deadline=None, database=None, max_examples=80)

MAGNITUDES = [0.0, 1e-40, 1e-20, 1e-3, 1.0, 1.0, 2.0, 1e4, 1e10, 1e30]
NUMBERS = MAGNITUDES + [-value for value in MAGNITUDES]
WEIGHTS = [0.0, 1e-38, 1e-12, 0.5, 1.0, 1.0, 1e12]
OFFSETS = [0.0, 1e-3, 1.0, 2.0, 30.0, 1000.0]


@st.composite
def edges(draw, num_nodes):
    """Self-loops, multi-edges and isolated nodes come by themselves, a hub on demand."""
    node = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), min_size=1, max_size=16))
    if draw(st.booleans()):
        hub = draw(node)
        pairs += [(source, hub) for source in range(num_nodes)]
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t()


@st.composite
def extreme_cases(draw, dtype, forms=FORMS):
    """A form, features, a graph with weights, and a parameter."""
    form = draw(st.sampled_from(forms))
    num_nodes, channels = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    unit = draw(st.sampled_from(MAGNITUDES))
    of_one_size = st.sampled_from([0.0, unit, 2 * unit, -3 * unit])
    numbers = draw(st.lists(st.sampled_from(NUMBERS) | of_one_size, min_size=1, max_size=4))
    flat = draw(
        st.lists(st.sampled_from(numbers), min_size=num_nodes * channels,
                 max_size=num_nodes * channels)
    )  # fmt: skip
    x = torch.tensor(flat, dtype=dtype).view(num_nodes, channels)
    index = draw(edges(num_nodes))
    count = index.size(1)
    weight = draw(st.lists(st.sampled_from(WEIGHTS), min_size=count, max_size=count))
    graph = Graph.from_edge_index(index, num_nodes)
    theta = LOWER[form.kind] + draw(st.sampled_from(OFFSETS))
    return form, x, graph, torch.tensor(weight, dtype=dtype), theta


@st.composite
def ordinary_cases(draw, forms=FORMS):
    """The same with float64 features of order one, ties included."""
    form = draw(st.sampled_from(forms))
    num_nodes, channels = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    number = st.integers(-20, 20).map(lambda value: value / 4)
    size = num_nodes * channels
    flat = draw(st.lists(number, min_size=size, max_size=size))
    x = torch.tensor(flat, dtype=torch.float64).view(num_nodes, channels)
    index = draw(edges(num_nodes))
    weight = draw(
        st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]), min_size=index.size(1),
                 max_size=index.size(1))
    )  # fmt: skip
    theta = LOWER[form.kind] + draw(st.sampled_from([0.0, 0.5, 1.0, 3.0, 40.0]))
    return form, x, index, torch.tensor(weight, dtype=torch.float64), theta

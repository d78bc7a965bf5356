"""The kinds of graphs of states, by name."""

from .graph import GraphKind
from .lattice import Lattice

GRAPHS = {
    "dag": GraphKind("to all later ones (default, the paper's)", lambda v, u, k: u > v),
    "sparse": GraphKind("to those of all later tokens (table 13)", lambda v, u, k: u // k > v // k),
    "lattice": Lattice(
        "to those of the next expanded token (not in the paper)",
        lambda v, u, k: u // k == v // k + 1,
        least_length=None,
    ),
}

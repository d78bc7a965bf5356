"""The kinds of graphs of states, by name."""

from fs_plugins.exlm.graph import GraphKind
from fs_plugins.exlm.lattice import Lattice


def is_later(v, u, k):
    return u > v


def is_of_later_token(v, u, k):
    return u // k > v // k


def is_of_next_token(v, u, k):
    return u // k == v // k + 1


GRAPHS = {
    "dag": GraphKind("to all later ones (default, the paper's)", is_later),
    "sparse": GraphKind("to those of all later tokens (table 13)", is_of_later_token),
    "lattice": Lattice(
        "to those of the next expanded token (not in the paper)",
        is_of_next_token,
        least_length=None,
    ),
}

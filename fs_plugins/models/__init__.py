"""Models and their architectures; importing this registers them with fairseq."""

from fs_plugins.models import causal_head, architectures, exlm, exlm_lattice, mlm

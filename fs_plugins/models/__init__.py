"""Models and their architectures; importing this registers them with fairseq."""

from fs_plugins.models import architectures, exlm, mlm

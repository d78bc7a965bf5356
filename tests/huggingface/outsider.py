"""Importing this keeps fairseq and this package from being found, as for a user who has neither."""

import sys

sys.modules |= dict.fromkeys(("fairseq", "fs_plugins", "torchaudio"))

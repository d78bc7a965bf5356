"""The tokenizer of models that were trained on canonical SMILES."""

from transformers import PreTrainedTokenizerFast
from transformers.utils import logging

try:
    from .molecules import canonical_smiles, parse_molecule
except ImportError:  # RDKit is not needed for SMILES that are canonical already
    parse_molecule = None

logger = logging.get_logger(__name__)


class ExLMSmilesTokenizer(PreTrainedTokenizerFast):
    """Brings SMILES into RDKit's canonical form, without atom maps, before they are tokenised; without RDKit
    it says once that it does not. What RDKit cannot read, such as SMILES with masks, stays as it is.

    Args:
        allow_valence: whether atoms may have more bonds than RDKit permits.
    """

    # Has no __init__: with one, transformers would make the tokenizer anew, without its decoder.

    def _encode_plus(self, text, text_pair=None, *args, is_split_into_words=False, **kwargs):
        if parse_molecule is None:
            logger.warning_once(
                "RDKit is not installed: SMILES are read as they are, and have to be in its canonical form"
            )
        elif not is_split_into_words:
            text, text_pair = self.canonical(text), self.canonical(text_pair)
        return super()._encode_plus(text, text_pair, *args, is_split_into_words=is_split_into_words, **kwargs)

    def canonical(self, text):
        """Returns a SMILES, or a list of them, in canonical form."""
        if isinstance(text, list | tuple):
            return [self.canonical(part) for part in text]
        try:
            return canonical_smiles(
                parse_molecule(text.strip(), self.init_kwargs.get("allow_valence", False)), text
            )
        except (ValueError, AttributeError):  # no molecule, or no text
            return text

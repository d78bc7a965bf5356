"""ExLM for fairseq."""

from fairseq.models import register_model
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor

from fs_plugins.exlm.model import ExLM
from fs_plugins.exlm.settings import ExLMSettings
from fs_plugins.models.flags import EXLM_FLAGS
from fs_plugins.models.mlm import RotaryRobertaModel


@register_model("p_roberta_ext_denselink")
class ExLMModel(RotaryRobertaModel):
    """``--arch p_roberta_ext_denselink*``, ``exlm_*``: trained with ``--criterion nat_dag_loss_mlm``.

    As the vanilla MLM, but where that gives logits the first output is a :class:`StateGraph`. Heads read the
    first state of an expanded token: classification heads that of the first ``<s>``, token heads one of each
    original token.
    """

    flags, settings, network = EXLM_FLAGS, ExLMSettings, ExLM

    @classmethod
    def build_model(cls, args, task):
        if (copies := getattr(args, "repeat_times", None) or 1) > 1:
            raise ValueError(
                f"--repeat-times {copies}: ExLM expands masked tokens itself; repeated tokens are for a "
                "model without states (--arch p_roberta_base, mlm_smiles, mlm_tiny, ...)"
            )
        return super().build_model(args, task)

    def initialise(self) -> None:
        self.encoder.apply(init_bert_params)  # draws once more, so that a seed keeps giving the same weights
        super().initialise()

    def predict(self, src_tokens: Tensor, target: Tensor | None = None, transitions: bool = True):
        """Returns the :class:`StateGraph` of a batch, and an empty dict.

        Args:
            src_tokens: [B, T] int64.
            target: [B, T] int64, the original token where one is to be predicted, else pad. Without it the
                ``<mask>`` tokens are expanded.
            transitions: whether to compute the graph's transitions.

        Raises:
            ValueError: for a sentence without ``<s>``, and one that is longer than ``--max-positions`` after
                its expansion.
        """
        return self.encoder(src_tokens, target, transitions), {}

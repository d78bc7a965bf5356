"""ExLM for transformers. What it imports of this package lies beside it in an export, but for the compiled
operator, which is used where the package is installed.

Each ``<s>``, ``</s>`` and masked token is k states inside the model; outputs have one row for each token,
that of its first state if it has states. B sequences of T tokens become N tokens and states, of which L are
the nodes of the graph; V is the size of the vocabulary. ``encoder`` is the model of exlm/.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import (
    BaseModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple, logging
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from fs_plugins.exlm.alignment import ctc_word_log_probs, dag_loss_reference, gathered_scores, word_log_probs
from fs_plugins.exlm.encoder import ACTIVATIONS, Attention, EncoderLayer, gather_tokens
from fs_plugins.exlm.expansion import Sizes
from fs_plugins.exlm.extended import ExtendedExLM, make_model
from fs_plugins.exlm.model import LMHead
from fs_plugins.exlm.rotary import RotaryEmbedding
from fs_plugins.exlm.transitions import LOG_ZERO
from fs_plugins.huggingface.configuration_exlm import ExLMConfig
from fs_plugins.huggingface.modeling_checks import (
    IGNORED,
    ExLMMaskedLMOutput,
    at_targets,
    check_length,
    checked,
    cross_entropy,
    exporting,
    known,
    label_loss,
    wide,
)

logger = logging.get_logger(__name__)
EXPORT_ROOM = 4  # tokens with states of each text in torch.export and ONNX: <s> A </s> </s> B </s>


def dag_loss(*arguments):
    """Calls the compiled operator, where this package is installed, which the first loss imports."""
    try:
        from fs_plugins.custom_ops.dag_loss import dag_loss
    except ImportError:
        return dag_loss_reference(*arguments)
    return dag_loss(*arguments)


class ExLMAttention(Attention):
    """Attention that gives its weights where ``attn_implementation="eager"`` asks for it."""

    def attend(self, q, k, v, bias):
        if self.config._attn_implementation != "eager":
            return super().attend(q, k, v, bias)
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        return self.dropout((scores if bias is None else scores + bias).softmax(-1)) @ v


@dataclass
class Encoded(BaseModelOutput):
    """Of all tokens and states."""

    before_norm: Tensor | None = None  # [B, N, d] before the last layer norm


class ExLMPreTrainedModel(PreTrainedModel):
    config_class = ExLMConfig
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means: Trainer divides them by its accumulation steps
    has_lm_head = False
    _supports_sdpa = True
    _no_split_modules = ["EncoderLayer"]
    # Heads of other tasks.
    _keys_to_ignore_on_load_unexpected = [r"^(classifier|qa_outputs)\.|^encoder\.(?!sentence_encoder\.)"]
    _can_record_outputs = {
        "hidden_states": EncoderLayer,
        "attentions": OutputRecorder(nn.Dropout, layer_name="self_attn.dropout"),
    }

    def __init__(self, config):
        super().__init__(config)
        self.encoder = make_model(config, self.has_lm_head)
        for layer in self.encoder.sentence_encoder.layers:
            layer.self_attn.__class__, layer.self_attn.config = ExLMAttention, config
        self.add_head(config)
        self.post_init()

    def add_head(self, config):
        """Makes what a subclass puts on the encoder."""

    def get_input_embeddings(self):
        return self.encoder.sentence_encoder.embed_tokens

    def set_input_embeddings(self, value):
        self.encoder.sentence_encoder.embed_tokens = value

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, RotaryEmbedding):
            init.copy_(module.inv_freq, module.frequencies())
        elif isinstance(module, LMHead):
            init.zeros_(module.bias)
            if not self.config.tie_word_embeddings:
                init.normal_(module.weight, std=self.config.initializer_range)
        elif isinstance(module, ExtendedExLM) and module.state_embedding is not None:
            module.reset_states()

    def encode(self, input_ids=None, attention_mask=None, labels=None, **others):
        """Encodes input_ids [B, T], padded on the right; attention_mask [B, T] is 0 on padding.

        With labels [B, T], the tokens that have one are expanded; else the ``<mask>`` tokens.
        ``hidden_states`` (with ``output_hidden_states``) are [B, T, d] too; ``attentions`` (with
        ``output_attentions`` and ``attn_implementation="eager"``) are between all tokens and states, [B,
        heads, N, N], but in the first ``expand_from_layer`` layers between tokens. Other arguments of
        transformers, such as token_type_ids, change nothing.

        Returns:
            The output of the encoder; the last layer's states [B, N, d] before the last layer norm and after;
            and where they stand (a StateLayout; None without states).
        """
        config, layout = self.config, None
        for name in ("inputs_embeds", "position_ids", "head_mask"):
            if others.get(name) is not None:
                raise ValueError(f"ExLM does not support {name}: give input_ids and attention_mask")
        asked = ((name, others.get(name)) for name in ("output_hidden_states", "output_attentions"))
        options = {name: value for name, value in asked if value is not None}
        if options.get("output_attentions") and config._attn_implementation != "eager":
            raise ValueError('output_attentions needs attn_implementation="eager"')
        tokens = known(checked(input_ids, attention_mask, labels, config), config)
        T = tokens.shape[1]
        if config.num_states is not None:
            k, targets = config.num_states, None
            if labels is not None:
                targets = known(labels, config).masked_fill(labels == IGNORED, config.pad_token_id)
            fixed = Sizes(T + 1 + EXPORT_ROOM * (k - 1), T + 1, EXPORT_ROOM)
            layout = self.encoder.expand(tokens, targets, (lambda *_: fixed) if exporting() else Sizes.of)
        elif config.repeat_times > 1:
            tokens = tokens.repeat_interleave(config.repeat_times, dim=1)
        check_length(tokens if layout is None else layout.tokens, T, config)
        encoded = self._encode(tokens if layout is None else layout, **options)
        x, hiddens = encoded.last_hidden_state, encoded.hidden_states
        if hiddens is not None:
            first = getattr(self.encoder, "first", 0)  # layers that see each token once
            once = min(first + 1, len(hiddens) - 1) if first else 0
            hiddens = tuple(h[:, :T] if i < once else self.rows(h, layout) for i, h in enumerate(hiddens))
        output = BaseModelOutput(self.rows(x, layout), hiddens, encoded.attentions)
        return output, encoded.before_norm, x, layout

    @capture_outputs
    def _encode(self, batch, **options):
        x = self.encoder.encode(batch)
        normed = self.encoder.norm(x)
        if self.config.num_states and exporting():  # a traced graph cannot raise an error
            lost = (batch.target_lengths > EXPORT_ROOM)[:, None, None]
            normed = normed.masked_fill(lost, float("nan"))
        return Encoded(normed, before_norm=x)

    def rows(self, x, layout):
        """Returns [B, T, d] of the tokens given, from x [B, N, d] of tokens and states."""
        return x[:, :: self.config.repeat_times] if layout is None else gather_tokens(x, layout.first_states)


class ExLMModel(ExLMPreTrainedModel):
    """The encoder: ``last_hidden_state`` [B, T, d], one row for each of ``input_ids``."""

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        """Returns the output of :meth:`encode`, which has the arguments."""
        return self.encode(input_ids, attention_mask, **kwargs)[0]


class ExLMForMaskedLM(ExLMPreTrainedModel):
    """Masked language modelling.

    The loss is in nats for each target. With states, each sentence's loss is divided by its number of targets
    (``<s>`` and ``</s>`` are targets too), and their mean is taken; without, it is the mean over all targets.
    """

    has_lm_head = True
    _tied_weights_keys = {"encoder.lm_head.weight": "encoder.sentence_encoder.embed_tokens.weight"}

    def get_output_embeddings(self):
        """Returns the output matrix and bias, which are the LM head's, as a layer."""
        head, layer = self.encoder.lm_head, nn.Linear(1, 1, device="meta")
        layer.weight, layer.bias = head.weight, head.bias
        layer.out_features, layer.in_features = head.weight.shape
        return layer

    def set_output_embeddings(self, value):
        self.encoder.lm_head.weight, self.encoder.lm_head.bias = value.weight, value.bias

    def resize_token_embeddings(self, *args, **kwargs):
        embedding = super().resize_token_embeddings(*args, **kwargs)
        bias = getattr(self.encoder, "state_bias", None)
        if bias is not None:  # 0 for new tokens, as their other bias
            more = len(embedding.weight) - bias.shape[1]
            self.encoder.state_bias = nn.Parameter(F.pad(bias.detach(), (0, more)))
        return embedding

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        """labels [B, T]: the original token where one is to be predicted (whether it was replaced by
        ``<mask>``, by another one, or kept), else -100. In training, with labels, there are no logits."""
        if self.training and labels is None and (self.config.num_states or self.config.repeat_times > 1):
            logger.warning_once(
                "training without labels, which Trainer takes away for label_smoothing_factor and "
                "compute_loss_func: only the loss that this model returns for labels is that of its method"
            )
        encoded, last, x, layout = self.encode(input_ids, attention_mask, labels, **kwargs)
        if layout is None:
            found = self.predict_copies(x, labels)
        else:
            found = self.predict_states(last, x, layout, labels)
        return ExLMMaskedLMOutput(**found, hidden_states=encoded.hidden_states, attentions=encoded.attentions)

    def predict_copies(self, x, labels):
        """Returns loss and logits without states, of x [B, repeat_times T, d]. A token's prediction is the
        mean of its copies'."""
        times, loss, head = self.config.repeat_times, None, self.encoder.lm_head
        if labels is not None:
            labels = known(labels, self.config).repeat_interleave(times, dim=1).to(x.device)
            if self.training:  # the logits of labels are all that is needed
                wanted = labels != IGNORED
                return {"loss": cross_entropy(head(x[wanted]), labels[wanted])}
        logits = head(x)
        if labels is not None:
            loss = cross_entropy(logits.flatten(0, 1), labels.flatten())
        if times > 1:
            copies = wide(logits).log_softmax(-1).unflatten(1, (-1, times))
            logits = copies.logsumexp(2) - torch.tensor(float(times)).log()
        return {"loss": loss, "logits": logits}

    @torch.compiler.disable  # would be compiled anew for each number of targets
    def predict_states(self, last, x, layout, labels):
        """Returns all outputs with states, from those before the last layer norm and after, [B, N, d]."""
        if exporting():
            raise NotImplementedError(
                "the masked LM of an ExLM cannot be exported (torch.export, ONNX), as the size of its graph "
                "depends on input_ids: export the encoder, AutoModel, or a fine-tuned model"
            )
        config, is_ctc, loss = self.config, self.config.alignment == "ctc", None
        graph = self.encoder.link(gather_tokens(last, layout.node_positions), layout, not is_ctc)
        node_logits = graph.logits()
        log_probs = wide(node_logits).log_softmax(-1)  # [B, L, V]
        graph = graph._replace(node_states=log_probs)  # for gathered_scores
        links = None if is_ctc else graph.links.clamp(min=LOG_ZERO)
        # Graphs of DataParallel's replicas differ in size, and could not be joined.
        shown = {} if getattr(self, "_is_replica", False) else {"links": links, "node_logits": node_logits}
        if labels is not None:
            if is_ctc:
                log_prob = graph.ctc_log_prob(config.unk_token_id, gathered_scores)
            else:
                log_prob = graph.log_prob(gathered_scores, dag_loss)
            loss = (-log_prob / layout.target_lengths).mean()
            if self.training:
                return {"loss": loss, **shown}
        # With labels only the loss is differentiable: the graph of the logits would take much memory.
        with torch.set_grad_enabled(labels is None and torch.is_grad_enabled()):
            logits = wide(self.encoder.lm_head(self.rows(x, layout)))
            with torch.autocast(log_probs.device.type, enabled=False):
                if is_ctc:
                    by_target = log_probs.unflatten(1, (-1, config.num_states))  # [B, M, k, V]
                    marginals = ctc_word_log_probs(by_target, config.unk_token_id)
                else:
                    marginals = word_log_probs(log_probs, links, layout.node_lengths, layout.target_lengths)
            logits = at_targets(logits, marginals, layout, config.num_states)
        return {"loss": loss, "logits": logits, **shown}


class ExLMClassificationHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.classifier_activation]
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, x):
        """Returns [B, labels] of x [B, d]."""
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(x)))))


class ExLMForSequenceClassification(ExLMPreTrainedModel):
    """Classes or values of sequences, from the first state of ``<s>``; the loss is :func:`label_loss`."""

    def add_head(self, config):
        self.classifier = ExLMClassificationHead(config)

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        """labels: [B] int64 classes, [B] values, or [B, labels] float."""
        outputs = self.encode(input_ids, attention_mask, **kwargs)[0]
        logits = self.classifier(outputs.last_hidden_state[:, 0])
        loss = None if labels is None else label_loss(logits, labels.to(logits.device), self.config)
        return SequenceClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class ExLMForTokenClassification(ExLMPreTrainedModel):
    """A class for each token; labels [B, T] int64 are -100 where there is none."""

    def add_head(self, config):
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.encode(input_ids, attention_mask, **kwargs)[0]
        logits, loss = self.classifier(self.dropout(outputs.last_hidden_state)), None
        if labels is not None:
            loss = cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class ExLMForQuestionAnswering(ExLMPreTrainedModel):
    """Where the answer starts and ends; both at ``<s>`` where the context has none (SQuAD 2.0)."""

    def add_head(self, config):
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, start_positions=None, end_positions=None, **kwargs
    ):
        """start_positions, end_positions [B] int64: indices of tokens; those beyond the input are ignored."""
        outputs = self.encode(input_ids, attention_mask, **kwargs)[0]
        start, end = self.qa_outputs(self.dropout(outputs.last_hidden_state)).unbind(-1)  # [B, T] each
        loss = None
        if start_positions is not None and end_positions is not None:
            targets = (p.view(-1).clamp(0).to(start.device) for p in (start_positions, end_positions))
            loss = sum(
                cross_entropy(logits, target.masked_fill(target >= logits.shape[1], IGNORED)) / 2
                for logits, target in zip((start, end), targets, strict=True)
            )
        return QuestionAnsweringModelOutput(loss, start, end, outputs.hidden_states, outputs.attentions)

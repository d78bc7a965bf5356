"""ExLM for transformers. What it imports of this package lies beside it in an export, but for the compiled
operator, which is used where the package is installed.

Each ``<s>``, ``</s>`` and masked token is k states inside the model; outputs have one row for each token,
that of its first state if it has states. B sequences of T tokens become N tokens and states, of which L are
the nodes of the graph; V is the size of the vocabulary.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import (
    BaseModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple, logging

from .dag_reference import dag_loss_reference
from .configuration_exlm import ExLMConfig
from .modeling_exlm_layers import (
    IGNORED,
    ExLMClassificationHead,
    ExLMGraph,
    ExLMHead,
    ExLMLayer,
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
from .marginals import ctc_targets_log_prob, ctc_word_log_probs, word_log_probs
from .state_expansion import (
    BIAS_STD,
    BIAS_UNIT,
    VECTOR_STD,
    expand_states,
    gather_tokens,
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


class ExLMPreTrainedModel(PreTrainedModel):
    config_class = ExLMConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means: Trainer divides them by its accumulation steps
    _supports_sdpa = True
    _no_split_modules = ["ExLMLayer"]
    _keys_to_ignore_on_load_unexpected = [r"^(lm_head|graph|classifier|qa_outputs)\.|^state_"]  # other heads

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, ExLMForMaskedLM) and self.config.state_embedding:
            nn.init.normal_(module.state_embedding)
            nn.init.normal_(module.state_bias, std=BIAS_STD / BIAS_UNIT)


class ExLMModel(ExLMPreTrainedModel):
    """The encoder: ``last_hidden_state`` [B, T, d], one row for each of ``input_ids``."""

    def __init__(self, config):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layers = nn.ModuleList(ExLMLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        labels=None,
        output_hidden_states=None,
        output_attentions=None,
        return_states=False,
        **others,
    ):
        """Encodes input_ids [B, T], padded on the right; attention_mask [B, T] is 0 on padding.

        With labels [B, T], the tokens that have one are expanded; else the ``<mask>`` tokens.
        ``hidden_states`` (with ``output_hidden_states``) are [B, T, d] too; ``attentions`` (with
        ``output_attentions`` and ``attn_implementation="eager"``) are between all tokens and states, [B,
        heads, N, N], but in the first ``expand_from_layer`` layers between tokens. Other arguments of
        transformers, such as token_type_ids, change nothing.

        With ``return_states``, a tuple: this output, the last layer's states [B, N, d] before the last layer
        norm and after, and where they stand (a StateLayout; None without states).
        """
        config, layout = self.config, None
        for name in ("inputs_embeds", "position_ids", "head_mask"):
            if others.get(name) is not None:
                raise ValueError(f"ExLM does not support {name}: give input_ids and attention_mask")
        if output_hidden_states is None:
            output_hidden_states = config.output_hidden_states
        if output_attentions is None:
            output_attentions = config.output_attentions
        if output_attentions and config._attn_implementation != "eager":
            raise ValueError('output_attentions needs attn_implementation="eager"')
        tokens = known(checked(input_ids, attention_mask, labels, config), config)
        given = tokens.shape[1]
        if config.num_states is not None:
            masked = tokens == config.mask_token_id if labels is None else labels != IGNORED
            originals = tokens if labels is None else torch.where(masked, known(labels, config), tokens)
            ids = {"bos": config.bos_token_id, "eos": config.eos_token_id, "pad": config.pad_token_id}
            room = EXPORT_ROOM if exporting() else None
            layout = expand_states(tokens, masked, originals, config.num_states, **ids, room=room)
            tokens = layout.tokens
        elif config.repeat_times > 1:
            tokens = tokens.repeat_interleave(config.repeat_times, dim=1)
        check_length(tokens, given, config)
        if config.expand_from_layer:
            tokens = layout.unexpanded
        x = self.dropout(self.embed_tokens(tokens))
        hiddens, attentions, first = [], [], config.expand_from_layer
        stages = [(self.layers[first:], tokens, layout)]
        if first > 0:  # these see each token once
            stages = [(self.layers[:first], tokens, None), (self.layers[first:], layout.tokens, layout)]
        for layers, tokens, where in stages:
            if where is not None and first > 0:
                x, *hiddens = (gather_tokens(h, layout.positions) for h in (x, *hiddens))
            rotation = self.rotation(tokens, where, x.dtype) if len(layers) else None
            full = where is not None and where.full
            mask = None if full else (tokens != config.pad_token_id)[:, None, None]
            for layer in layers:
                if output_hidden_states:
                    hiddens.append(x)
                x, weights = layer(x, rotation, mask)
                attentions.append(weights)
        x, last = self.norm(x), x
        if layout is not None and exporting():  # which cannot raise an error
            x = x.masked_fill((layout.target_lengths > EXPORT_ROOM)[:, None, None], float("nan"))
        hiddens = tuple(self.rows(h, layout) for h in [*hiddens, x]) if output_hidden_states else None
        attentions = tuple(attentions) if output_attentions else None
        output = BaseModelOutput(self.rows(x, layout), hiddens, attentions)
        return (output, last, x, layout) if return_states else output

    def rotation(self, tokens, layout, dtype):
        """Returns cosines and sines [1 or B, N, d], these with a minus for the first of each pair, and how
        far apart its two are; computed here, as buffers are lost when transformers loads a model."""
        config = self.config
        index = torch.arange(tokens.shape[1], device=tokens.device)[None]
        coordinates = [index, torch.zeros_like(index)][: config.rope_dimensions]
        if layout is not None and config.rope_dimensions == 2:
            coordinates = [layout.positions, layout.copies]
        half = config.hidden_size // config.num_attention_heads // config.rope_dimensions // 2
        frequencies = 10000.0 ** (torch.arange(half, dtype=torch.float64) / -half)
        angles = torch.stack(coordinates, -1)[..., None].float() * frequencies.float().to(tokens.device)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)  # [1 or B, N, coordinates, half]
        tables = (torch.stack(pair, -2).flatten(-3) for pair in ((cos, cos), (-sin, sin)))
        return *(table.repeat(1, 1, config.num_attention_heads) for table in tables), half

    def rows(self, x, layout):
        """Returns [B, T, d] of the tokens given, from x [B, N, d] of tokens and states."""
        return x[:, :: self.config.repeat_times] if layout is None else gather_tokens(x, layout.first_states)


class ExLMForMaskedLM(ExLMPreTrainedModel):
    """Masked language modelling.

    The loss is in nats for each target. With states, each sentence's loss is divided by its number of targets
    (``<s>`` and ``</s>`` are targets too), and their mean is taken; without, it is the mean over all targets.
    """

    _tied_weights_keys = {"lm_head.decoder.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model, self.lm_head = ExLMModel(config), ExLMHead(config)
        self.graph = ExLMGraph(config) if config.num_states and config.alignment == "dag" else None
        self.state_embedding = self.state_bias = None
        if config.state_embedding:
            self.state_embedding = nn.Parameter(torch.zeros(config.num_states, config.hidden_size))
            self.state_bias = nn.Parameter(torch.zeros(config.num_states, config.vocab_size))
        self.post_init()

    def get_output_embeddings(self):
        return self.lm_head.decoder

    def set_output_embeddings(self, value):
        self.lm_head.decoder = value

    def resize_token_embeddings(self, *args, **kwargs):
        embedding = super().resize_token_embeddings(*args, **kwargs)
        if self.state_bias is not None:  # of new tokens 0, as their other bias
            more = len(embedding.weight) - self.state_bias.shape[1]
            self.state_bias = nn.Parameter(F.pad(self.state_bias.detach(), (0, more)))
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
        kwargs = {**kwargs, "return_dict": True, "return_states": True}
        encoded, last, x, layout = self.model(input_ids, attention_mask, labels, **kwargs)
        predicted = self.of_copies(x, labels) if layout is None else self.of_states(last, x, layout, labels)
        more = {"hidden_states": encoded.hidden_states, "attentions": encoded.attentions}
        return ExLMMaskedLMOutput(**predicted, **more)

    def of_copies(self, x, labels):
        """Loss and logits without states: x [B, repeat_times T, d]. A token's prediction is the mean of its
        copies'."""
        times, loss = self.config.repeat_times, None
        if labels is not None:
            labels = labels.repeat_interleave(times, dim=1).to(x.device)
            if self.training:  # the logits of labels are all that is needed
                x = x[labels != IGNORED]
                labels = labels[labels != IGNORED]
            targets = known(labels, self.config).flatten()
        logits = self.lm_head(x)
        if labels is not None:
            loss = cross_entropy(logits.flatten(0, -2), targets)
            if self.training:
                return {"loss": loss}
        if times > 1:
            copies = wide(logits).log_softmax(-1).unflatten(1, (-1, times))
            logits = copies.logsumexp(2) - torch.tensor(float(times)).log()
        return {"loss": loss, "logits": logits}

    @torch.compiler.disable  # it would be compiled anew for each number of targets
    def of_states(self, last, x, layout, labels):
        """Returns all outputs with states, from those before the last layer norm and after, [B, N, d]."""
        if exporting():
            raise NotImplementedError(
                "the masked LM of an ExLM cannot be exported (torch.export, ONNX), as the size of its graph "
                "depends on input_ids: export the encoder, AutoModel, or a fine-tuned model"
            )
        config, lengths = self.config, (layout.node_lengths, layout.target_lengths)
        if config.state_embedding:
            times = layout.targets.shape[1], 1
            vectors = VECTOR_STD * self.state_embedding.repeat(times)
            nodes = self.model.norm(gather_tokens(last, layout.node_positions) + vectors)
            node_logits = self.lm_head(nodes) + BIAS_UNIT * self.state_bias.repeat(times)
        else:
            nodes = gather_tokens(x, layout.node_positions)
            node_logits = self.lm_head(nodes)
        words = wide(node_logits).log_softmax(-1)  # [B, L, V]
        by_target = words.unflatten(1, (-1, config.num_states))  # [B, M, k, V]
        links, loss = None, None
        if self.graph is not None:
            links = self.graph(nodes, layout)
        # those of DataParallel's replicas are of different sizes, and could not be joined
        shown = {} if getattr(self, "_is_replica", False) else {"links": links, "node_logits": node_logits}
        if labels is not None:
            if self.graph is None:
                wanted = layout.targets[:, :, None, None].expand(-1, -1, config.num_states, -1)
                own, blank = by_target.gather(3, wanted).squeeze(3), by_target[..., config.unk_token_id]
                is_blank = layout.targets == config.unk_token_id
                log_prob = ctc_targets_log_prob(own, blank, is_blank, layout.target_lengths)
            else:
                wanted = layout.targets[:, None].expand(-1, words.shape[1], -1)  # [B, L, M]
                log_prob = dag_loss(words.gather(2, wanted).transpose(1, 2), links, *lengths)
            loss = (-log_prob / layout.target_lengths).mean()
            if self.training:
                return {"loss": loss, **shown}
        # With labels only the loss is differentiable: the graph of the logits would take much memory.
        with torch.set_grad_enabled(labels is None and torch.is_grad_enabled()):
            logits = wide(self.lm_head(self.model.rows(x, layout)))
            with torch.autocast(words.device.type, enabled=False):
                if self.graph is None:
                    marginals = ctc_word_log_probs(by_target, config.unk_token_id)
                else:
                    marginals = word_log_probs(words, links, *lengths)
            logits = at_targets(logits, marginals, layout, config.num_states)
        return {"loss": loss, "logits": logits, **shown}


class ExLMForSequenceClassification(ExLMPreTrainedModel):
    """Classes or values of sequences, from the first state of ``<s>``; the loss is :func:`label_loss`."""

    def __init__(self, config):
        super().__init__(config)
        self.model, self.classifier = ExLMModel(config), ExLMClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        """labels: [B] int64 classes, [B] values, or [B, labels] float."""
        outputs = self.model(input_ids, attention_mask, **{**kwargs, "return_dict": True})
        logits = self.classifier(outputs.last_hidden_state[:, 0])
        loss = None if labels is None else label_loss(logits, labels.to(logits.device), self.config)
        return SequenceClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class ExLMForTokenClassification(ExLMPreTrainedModel):
    """A class for each token; labels [B, T] int64 are -100 where there is none."""

    def __init__(self, config):
        super().__init__(config)
        self.model, self.dropout = ExLMModel(config), nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):
        outputs = self.model(input_ids, attention_mask, **{**kwargs, "return_dict": True})
        logits, loss = self.classifier(self.dropout(outputs.last_hidden_state)), None
        if labels is not None:
            loss = cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device))
        return TokenClassifierOutput(loss, logits, outputs.hidden_states, outputs.attentions)


class ExLMForQuestionAnswering(ExLMPreTrainedModel):
    """Where the answer starts and ends; both at ``<s>`` where the context has none (SQuAD 2.0)."""

    def __init__(self, config):
        super().__init__(config)
        self.model, self.dropout = ExLMModel(config), nn.Dropout(config.classifier_dropout)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, start_positions=None, end_positions=None, **kwargs
    ):
        """start_positions, end_positions [B] int64: indices of tokens; those beyond the input are ignored."""
        outputs = self.model(input_ids, attention_mask, **{**kwargs, "return_dict": True})
        scores = self.qa_outputs(self.dropout(outputs.last_hidden_state))  # [B, T, 2]
        start, end = scores.unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            targets = (p.view(-1).clamp(0).to(start.device) for p in (start_positions, end_positions))
            loss = sum(
                cross_entropy(logits, target.masked_fill(target >= logits.shape[1], IGNORED)) / 2
                for logits, target in zip((start, end), targets, strict=True)
            )
        return QuestionAnsweringModelOutput(loss, start, end, outputs.hidden_states, outputs.attentions)

"""What ExLM for transformers takes, and its words for what it does not; imports torch and transformers."""

import torch
from transformers.utils.import_utils import is_torchdynamo_exporting


def checked(tokens, attention_mask, labels, config):
    """The tokens, int64, with padding where the mask is 0.

    Raises:
        ValueError: if there are none, they are no integers [B, T], are not padded on the right, or do not
            start with ``<s>``; or if attention_mask or labels have another shape.
        IndexError: for ids that the tokenizer does not have.
        NotImplementedError: if a model with states is traced or exported.
    """
    if tokens is None:
        raise ValueError("You have to specify input_ids")
    if not isinstance(tokens, torch.Tensor):
        raise ValueError(f'input_ids is a {type(tokens).__name__}: tokenize with return_tensors="pt"')
    if tokens.dim() != 2 or not tokens.numel() or tokens.is_floating_point():
        raise ValueError(
            "input_ids must be integers [batch, sequence], and not empty, got "
            f"{tokens.dtype} {list(tokens.shape)}"
        )
    for name, value in (("attention_mask", attention_mask), ("labels", labels)):
        if value is not None and value.shape != tokens.shape:
            raise ValueError(
                f"{name} must be [batch, sequence] as input_ids {list(tokens.shape)}, got {list(value.shape)}"
            )
    tokens = tokens.long()
    if attention_mask is not None:
        tokens = tokens.masked_fill(attention_mask == 0, config.pad_token_id)
    if torch.jit.is_tracing() or is_torchdynamo_exporting():
        if config.num_states is not None:
            raise NotImplementedError(
                "ExLM cannot be traced or exported (torch.jit.trace, torch.export, ONNX): the number of "
                "its states depends on input_ids"
            )
        return tokens  # as values cannot be looked at
    size = max(config.vocab_size, config.tokenizer_size or 0)
    if (tokens >= size).any():
        raise IndexError(
            f"input_ids has the id {int(tokens.max())}, and this model's tokenizer {size} ids: load the "
            "tokenizer from the model's folder; if you have added tokens to it, call "
            "model.resize_token_embeddings(len(tokenizer))"
        )
    padding = tokens == config.pad_token_id
    if (padding[:, :-1] & ~padding[:, 1:]).any():
        raise ValueError(
            "ExLM needs its batches padded on the right, and got padding before a token: set "
            'tokenizer.padding_side = "right"'
        )
    if (tokens[:, 0] != config.bos_token_id).any():
        raise ValueError(
            f"a sequence does not start with <s> (id {config.bos_token_id}): tokenize with this model's "
            "tokenizer and add_special_tokens=True"
        )
    return tokens


def check_length(tokens, given, config):
    """Raises a ValueError if the tokens [B, N], which were ``given`` before they were expanded or repeated,
    are more than the model has positions; padding is not counted."""
    most = config.max_position_embeddings
    if tokens.shape[1] <= most or (taken := int((tokens != config.pad_token_id).sum(1).max())) <= most:
        return
    k = config.num_states or 1
    why = f" with {k} states for each <s>, </s> and mask" if config.num_states else ""
    why = f" repeated {config.repeat_times} times each" if config.repeat_times > 1 else why
    shorter = min(given * most // taken, most - 2 * (k - 1))
    raise ValueError(
        f"{given} tokens{why} take {taken} positions, and the model has {most}: tokenize with "
        f"truncation=True and a max_length such as {shorter}, or mask less"
    )

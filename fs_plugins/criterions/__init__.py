"""Criteria of pre-training; importing this registers them with fairseq, which never imports a plugin's
criteria by itself."""

from fairseq.criterions import CRITERION_REGISTRY

from fs_plugins.criterions import masked_lm_accuracy, nat_ctc_loss_mlm, nat_dag_loss_mlm
from fs_plugins.criterions.states_criterion import StatesCriterion


def find_states_criterion(name: str | None) -> type[StatesCriterion] | None:
    """Returns the criterion of that name; None if it trains no states, as that of an MLM or a fine-tuning."""
    criterion = CRITERION_REGISTRY.get(name, object)
    return criterion if issubclass(criterion, StatesCriterion) else None

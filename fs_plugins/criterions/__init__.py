"""Criteria of pre-training; importing this registers them with fairseq, which never imports a plugin's
criteria by itself."""

from fs_plugins.criterions import masked_lm_accuracy, nat_ctc_loss_mlm, nat_dag_loss_mlm

"""What scripts/finetune_squad.sh asks Python."""

"""A folder of transformers as a checkpoint that fairseq-train and the scripts here read.

    python scripts/import_huggingface.py trained/exlm checkpoints/exlm/imported.pt

The folder was made by export_huggingface.py, or saved from such a model by transformers (Trainer,
save_pretrained). Its dictionary is written beside the checkpoint, as dict.txt. Train on with --restore-file,
--reset-optimizer, --reset-dataloader, --reset-meters and --reset-lr-scheduler.
"""

from pathlib import Path

from lib.command_line import argument_parser, script


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("folder", type=Path, help="with config.json and model.safetensors")
    add("checkpoint", type=Path, help="the file to write")
    data = "folder of the pre-training's data, to be recorded (default: the dictionary is the tokenizer's)"
    add("--data", type=Path, metavar="DIR", help=data)
    args = parser.parse_args(argv)

    from fs_plugins.huggingface.restore import restore, save

    print(save(restore(args.folder, args.data, "cpu"), args.checkpoint))

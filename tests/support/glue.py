"""Files of GLUE: of two rows for each task, and some from which a model can learn."""

import gzip
import random
from pathlib import Path

from lib.glue import TASKS

WORDS = ["the", "inn", "thin", "thing", "then", "nine", "tin", "hint", "tint", "ninth"]
GOOD, BAD = WORDS[:5], WORDS[5:]
QUOTED = ' "Yes , " he said .'  # MRPC's sentences have lone and paired quotation marks
# task -> (header of the labelled files, a row of each label), that of the test file, and what is in them
LABELLED = {
    "CoLA": (None, ["gj04\t1\t\tShe sings.", "gj04\t0\t*\tSings she the."]),
    "SST-2": ("sentence\tlabel", ["a fine film \t1", "a poor one \t0"]),
    "MRPC": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        [f"1\t10\t11\t{QUOTED}\tHe agreed .", '0\t12\t13\t" No .\tShe left .'],
    ),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        ["0\tg\tf\ty\t1\tn\tn\tA man.\tA person.\t4.250", "1\tg\tf\ty\t2\tn\tn\tA man.\tA cat.\t0.0"],
    ),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        ["5\t1\t2\tWhy?\tWhy so?\t1", "7\t3\t4\tWho?\tHow?\t0"],
    ),
    "MNLI": (
        "index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label",
        [f"{i}\tx\tIt is.\tIt is not.\tneutral\t{label}" for i, label in enumerate(TASKS["MNLI"].labels)],
    ),
    "QNLI": (
        "index\tquestion\tsentence\tlabel",
        ["0\tWhat?\tThat.\tentailment", "1\tWhat?\tNo.\tnot_entailment"],
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel",
        ["0\tA\u2028b.\tA.\tnot_entailment", "1\tC.\tC.\tentailment"],
    ),
}
UNLABELLED = {"CoLA": ("index\tsentence", ["0\tShe sings."])}
UNLABELLED["MRPC"] = "index\t#1 ID\t#2 ID\t#1 String\t#2 String", ["0\t1\t2\tOne .\tTwo ."]
UNLABELLED["RTE"] = "index\tsentence1\tsentence2", ["17\tA.\tB.", "4\tC.\tD."]
UNLABELLED["STS-B"] = "index\tsentence1\tsentence2", ["0\tA.\tB."]


def lines(header, rows) -> str:
    return "".join(f"{line}\n" for line in ([header] if header else []) + rows)


def write_task(folder: Path, name: str, packed: bool = False) -> Path:
    """Writes GLUE's files of a toy version of a task; returns their folder."""
    task, place = TASKS[name], folder / name
    place.mkdir(parents=True)
    contents = {split: lines(*LABELLED[name]) for split in task.splits if not split.startswith("test")}
    if name in UNLABELLED:
        contents["test"] = lines(*UNLABELLED[name])
    for split, content in contents.items():
        path = place / f"{task.splits[split]}.tsv{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    return place


def phrase(rng: random.Random, words: list[str]) -> str:
    return " ".join(rng.choice(words) for _ in range(rng.randint(3, 8)))


def glue_files(folder: Path) -> None:
    """SST-2, MNLI and STS-B whose labels follow from the words."""
    rng = random.Random(5)
    contents = {}
    for split, size in (("train", 200), ("dev", 61)):
        rows = [(label, phrase(rng, GOOD if label else BAD)) for label in rng.choices((0, 1), k=size)]
        contents["SST-2", split] = "sentence\tlabel\n" + "".join(f"{t}\t{label}\n" for label, t in rows)
        shares = [rng.randint(0, 5) for _ in range(size)]
        texts = [" ".join(rng.choices(GOOD, k=s) + rng.choices(BAD, k=5 - s)) for s in shares]
        rows = [f"{i}\t{t}\tthe\t{s}.000" for i, (s, t) in enumerate(zip(shares, texts, strict=True))]
        contents["STS-B", split] = "index\tsentence1\tsentence2\tscore\n" + "".join(r + "\n" for r in rows)
    tests = [phrase(rng, GOOD if i % 2 else BAD) for i in range(20)]
    contents["SST-2", "test"] = "index\tsentence\n" + "".join(f"{i + 3}\t{t}\n" for i, t in enumerate(tests))
    contents["STS-B", "test"] = "index\tsentence1\tsentence2\n0\tthe inn\ttin\n1\thint\ttin\n"
    names = ("contradiction", "neutral", "entailment")
    for split, size in (("train", 90), ("dev_matched", 31), ("dev_mismatched", 23), ("test_matched", 4)):
        chosen = ((name, names.index(name)) for name in rng.choices(names, k=size))
        rows = [f"{phrase(rng, WORDS[3 * i :])}\t{phrase(rng, WORDS[: i + 2])}\t{name}" for name, i in chosen]
        contents["MNLI", split] = "sentence1\tsentence2\tgold_label\n" + "".join(r + "\n" for r in rows)
    for (task, split), content in contents.items():
        (folder / task).mkdir(parents=True, exist_ok=True)
        (folder / task / f"{split}.tsv").write_text(content)

"""Documents of text to sentences of token ids.

A sentence, in fairseq's terms, is a paragraph with ``</s>``; an empty one (``</s>`` alone) follows each
document, which --sample-break-mode complete_doc takes for its end.
"""

from collections import Counter
from pathlib import Path

from lib.data.binarise import Encoded, Rejection
from lib.data.bpe import UNKNOWN_ID, TextEncoder
from lib.data.documents import Line, paragraphs_of

GROUP = 200  # paragraphs to tokenise at once, which takes a hundred times their size in memory


def encode_document(
    path: Path,
    document: list[Line],
    layouts: dict[Path, str],
    encoder: TextEncoder,
    max_tokens: int | None,
    column: str,
) -> Encoded:
    """Returns the sentences of a document of a file; paragraphs longer than ``max_tokens`` become several of
    at most so many tokens, without ``</s>``. Raises UserError for a token that the dictionary lacks, unless
    those are allowed."""
    paragraphs, faults, content_hash = paragraphs_of(document, layouts[path], column)
    contents = dict(document)
    rejections = [Rejection(str(number), reason, contents[number][:200]) for number, reason in faults]
    if not paragraphs:
        return Encoded(rejections=rejections)
    lines, unknown = [], 0
    for begin in range(0, len(paragraphs), GROUP):
        numbers, texts = zip(*paragraphs[begin : begin + GROUP], strict=True)
        for ids in encoder.encode(texts, [f"{path}, line {number}" for number in numbers]):
            unknown += int((ids == UNKNOWN_ID).sum())
            size = max(len(ids), 1)
            starts = range(0, size, max_tokens or size)
            lines += (" ".join(map(str, ids[i : i + starts.step].tolist())) for i in starts)
    counts = Counter({"documents": 1, "paragraphs": len(paragraphs), "unknown tokens": unknown})
    return Encoded([*lines, ""], content_hash, rejections, counts)

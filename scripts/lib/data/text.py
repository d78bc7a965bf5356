"""Documents of text to sentences of token ids.

A sentence, in fairseq's terms, is a paragraph with ``</s>``; an empty one (``</s>`` alone) follows each
document, which --sample-break-mode complete_doc takes for its end.
"""

from pathlib import Path

from lib.data.binarise import EncodedBlock, Rejection, blocks_of
from lib.data.bpe import UNKNOWN_ID, TextEncoder
from lib.data.documents import Line, paragraphs_of

GROUP = 100_000  # characters to tokenise at once, which takes a hundred times their size in memory


def size_of(document: list[Line]) -> int:
    """Returns the characters of a document."""
    return sum(len(text) for _, text in document)


def encode_documents(
    path: Path,
    documents: list[list[Line]],
    layouts: dict[Path, str],
    encoder: TextEncoder,
    max_tokens: int | None,
    column: str,
) -> EncodedBlock:
    """Returns the sentences of documents of a file; paragraphs longer than ``max_tokens`` become several of
    at most so many tokens, without ``</s>``. Raises UserError for a token that the dictionary lacks, unless
    those are allowed."""
    block, unknown = EncodedBlock(), 0
    for document in documents:
        paragraphs, faults, content_hash = paragraphs_of(document, layouts[path], column)
        contents = dict(document)
        block.rejections += [Rejection(str(n), reason, contents[n][:200]) for n, reason in faults]
        if not paragraphs:
            continue
        before = len(block.lines)
        for group in blocks_of(paragraphs, lambda paragraph: len(paragraph[1]), GROUP):
            sources = [f"{path}, line {number}" for number, _ in group]
            for ids in encoder.encode([text for _, text in group], sources):
                unknown += int((ids == UNKNOWN_ID).sum())
                size = max(len(ids), 1)
                starts = range(0, size, max_tokens or size)
                block.lines += (" ".join(map(str, ids[i : i + starts.step].tolist())) for i in starts)
        block.lines.append("")
        block.hashes += [content_hash] * (len(block.lines) - before)
        block.counts.update({"documents": 1, "paragraphs": len(paragraphs)})
    block.counts["unknown tokens"] += unknown
    return block

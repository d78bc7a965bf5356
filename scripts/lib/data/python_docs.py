"""English that comes with every CPython: the topics of its help.

    python -m lib.data.python_docs corpus.txt

writes a paragraph a line and an empty line after each topic, as prepare_text.py reads. What is not prose
(tables, code, short lines) is left out, and so are repeated paragraphs.
"""

import re
import sys
from pathlib import Path
from pydoc_data.topics import topics

from lib.command_line import script
from lib.files import write_lines

LEAST_WORDS = 6  # fewest words of a paragraph
_PROSE = re.compile(r"[\"'(“]*[A-Z].*[.!?:][\"')”]*")
_CODE = re.compile(r">>>|::=|[-=~#+_|]{3}")


def documents() -> list[list[str]]:
    """Returns the paragraphs of prose of each topic, each paragraph once."""
    found, seen = [], set()
    for _, topic in sorted(topics.items()):
        texts = (" ".join(part.replace("*", "").split()) for part in re.split(r"\n\s*\n", topic))
        prose = (text for text in texts if _PROSE.fullmatch(text) and not _CODE.search(text))
        new = [text for text in dict.fromkeys(prose) if len(text.split()) >= LEAST_WORDS and text not in seen]
        seen.update(new)
        found += [new] if new else []
    return found


@script
def main() -> None:
    output, kept = Path(sys.argv[1]), documents()
    words = sum(len(paragraph.split()) for document in kept for paragraph in document)
    write_lines(output, (line for document in kept for line in [*document, ""]))
    print(f"{output}: {len(kept):,} documents, {words:,} words")

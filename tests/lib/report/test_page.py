"""The two forms of a report: what is shown, that text stays text, that the HTML needs nothing else."""

from html.parser import HTMLParser

import pytest
from lib import figures
from lib.command_line import UserError
from lib.report.page import Picture, Pictures, Section, code, remarks
from lib.tables import Table, escape

NASTY = "<b>*a|b*</b> [x](y) & `c`"


def picture(name, title) -> Picture:
    return Picture(name, figures.dots([], {}, {}, "", title))


COMMANDS = "<details><summary>Commands</summary>\n\n```\nbash run.sh <a> && b\n```\n\n</details>\n"
PAGE = Section(
    "Report",
    [remarks(["train.json is damaged"])],
    [
        Section(
            "Table 1",
            [escape(NASTY), Table(["model", NASTY], [["paper", "1"], [NASTY, "2.0 ± 0.1 (n=2 of 3)"]], {1})],
            [Section("Details", [Pictures([picture("one", "first"), picture("two", "second")])])],
        ),
        Section("Origin", [code("Commands", "bash run.sh <a> && b")]),
    ],
)


class Reader(HTMLParser):
    """Text, tags and addresses of a page; fails where tags are not closed in order."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.seen, self.addresses, self.ids, self.text = [], [], [], [], ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src")]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_is_whole_and_needs_nothing_else():
    page = PAGE.html()
    read = Reader(page)
    assert 'name="viewport"' in page and "script" not in read.seen and "link" not in read.seen
    links = [address for address in read.addresses if address.startswith("#")]
    pictures = [address for address in read.addresses if not address.startswith("#")]
    assert [link[1:] for link in links] == read.ids[1:] and len(set(read.ids)) == 4
    assert len(pictures) == 2 and all(one.startswith("data:image/png;base64,iVBOR") for one in pictures)
    assert "url(" not in page and "@import" not in page


def test_html_shows_text_as_it_is():
    text = Reader(PAGE.html()).text
    assert text.count(NASTY) == 3 and "bash run.sh <a> && b" in text
    assert "2.0 ± 0.1 (n=2 of 3)" in text and "train.json is damaged" in text


def test_markdown():
    text = PAGE.markdown()
    escaped = r"\<b\>\*a\|b\*\</b\> \[x\](y) \& \`c\`"
    assert text.startswith("# Report\n\n- train.json is damaged\n\n## Table 1\n\n" + escaped + "\n\n")
    table = f"| model | {escaped} |\n| --- | --- |\n| paper | 1 |\n| **{escaped}** | 2.0 ± 0.1 (n=2 of 3) |\n"
    assert table in text
    assert "### Details\n\n![first](pictures/one.png)\n![second](pictures/two.png)\n" in text
    assert text.endswith("## Origin\n\n" + COMMANDS)


def test_text_at_the_start_of_a_line_is_no_markup():
    for text in ("# one", "- one", "1. one", "+ one", "~~one~~", "a &lt; b", "  # one"):
        page = Section("Report", [escape(text), remarks([text])])
        read = Reader(page.html())
        assert read.text.count(f"\n{text.strip()}\n") == 2 and "\\" not in read.text, read.text
        assert [tag for tag in read.seen if tag in ("h1", "li", "ol", "code")] == ["h1", "li"]


def test_writing(tmp_path):
    assert PAGE.write(tmp_path) == [tmp_path / "report.md", tmp_path / "report.html"]
    assert {path.name for path in tmp_path.iterdir()} == {"report.md", "report.html", "pictures"}
    assert (tmp_path / "pictures" / "two.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="cannot write"):
        Section("x").write(tmp_path / "nowhere")

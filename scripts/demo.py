"""A demo in the browser: a sentence or a SMILES with masks in, its graph of states and its decodings out.

    python scripts/demo.py pretrained/exlm-molecules

listens on http://127.0.0.1:7860 and shares nothing unless --share is given. It takes a checkpoint, or a
folder that scripts/export_huggingface.py wrote. It needs Gradio: pip install -e '.[demo]'.
"""

import html
import os
from pathlib import Path

from lib.command_line import argument_parser, script, whole

MASK = "<mask>"
EXAMPLES = {False: "This is <mask>, and I am very <mask> to see it.", True: "CC(=O)<mask>c1ccccc1C(=<mask>)O"}
# the page in the frame says how high it is
HEAD = """<script>addEventListener("message", (event) => {
  const frame = document.querySelector("#page iframe");
  if (frame && event.source === frame.contentWindow) frame.style.height = `${event.data.pageHeight + 8}px`;
});</script>"""
CSS = """#page .html-container { padding: 0; }
#page iframe { width: 100%; height: 60rem; border: 0; border-radius: .5rem; }"""


def build(gr, model):
    """The demo of a model, as Gradio's Blocks."""
    from fs_plugins.inference.page import page

    molecules = model.codec.name == "smiles"

    def fill(text: str, samples: float | None, seed: float | None):
        try:
            graph = model.graph(text, samples=int(samples or 0), seed=int(seed or 0))
        except ValueError as error:
            raise gr.Error(html.escape(str(error)), print_exception=False) from error
        sandbox = "allow-scripts allow-downloads"
        return f'<iframe sandbox="{sandbox}" title="Graph" srcdoc="{html.escape(page(graph))}"></iframe>'

    with gr.Blocks(title="ExLM", analytics_enabled=False) as demo:
        what = "SMILES" if molecules else "Sentence"
        gr.Markdown(f"# ExLM\n{what} in, with `{MASK}` for each token to fill; states and decodings out.")
        text = gr.Textbox(EXAMPLES[molecules], label=f"{what} with {MASK}", elem_id="text")
        with gr.Accordion("Options", open=False):
            samples = gr.Slider(0, 100, 10, step=1, label="Sampled decodings, of each kind")
            seed = gr.Number(1, precision=0, label="Seed of the samples")
        button = gr.Button("Fill", variant="primary", elem_id="fill")
        shown = gr.HTML(elem_id="page")
        for event in (button.click, text.submit):
            event(lambda: "", None, shown).then(fill, [text, samples, seed], shown)
    return demo


def run(argv: list[str] | None, wait: bool = True):
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("model", type=Path, help="a checkpoint of an ExLM, or a folder for transformers")
    add("--data", type=Path, metavar="DIR", help="folder of dict.txt (default: the one of the training)")
    add("--bpe", nargs="+", metavar="FILE", help="how the corpus was written, as of explore.py")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    about = "on 127.0.0.1; 0 takes a free one (default: %(default)s)"
    add("--port", type=whole(0, 65535), default=7860, help=about)
    add("--share", action="store_true", help="make a public link through Gradio's servers")
    args = parser.parse_args(argv)
    from fs_plugins.inference import load

    model = load(args.model, data=args.data, bpe=args.bpe, device=args.device)
    model.graph(MASK, samples=0)  # raises for a model without states before anything is served
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1"}  # send nothing home
    import gradio as gr  # pip install -e '.[demo]'

    demo = build(gr, model)
    fonts = ["system-ui", "sans-serif"]  # by default, Gradio's pages fetch theirs from Google
    theme = gr.themes.Default(font=fonts, font_mono=["ui-monospace", "monospace"])
    demo.launch(
        server_name="127.0.0.1",
        server_port=args.port or None,
        share=args.share,
        prevent_thread_lock=not wait,
        theme=theme,
        css=CSS,
        head=HEAD,
    )
    return demo


@script
def main(argv: list[str] | None = None) -> None:
    run(argv)

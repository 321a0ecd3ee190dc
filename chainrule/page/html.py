"""HTML that needs nothing else: whole pages, and the same as parts of a notebook.

Every rule of the style sheet is confined to `chainrule-page`, so that it changes nothing around it.
Colours are variables, set once for light and once for dark: by what the reader's browser prefers,
and in a notebook by its own theme.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from html import escape
from typing import Final

from chainrule.page.palette import PALETTE

SCOPE: Final = "chainrule-page"


def _variables(scheme: str) -> str:
    return " ".join([f"--{name}: {getattr(colour, scheme)};" for name, colour in PALETTE.items()])


_RULES = """
& { box-sizing: border-box; max-width: 1000px; margin: 0 auto; padding: 1rem; color: var(--ink);
  background: var(--ground); font: 15px/1.5 system-ui, sans-serif; text-align: left;
  overflow-wrap: anywhere; }
& h1 { font-size: 1.4rem; line-height: 1.3; margin: .4rem 0 1rem; font-weight: 600; }
& h2 { font-size: 1.1rem; line-height: 1.35; margin: 0; font-weight: 600; }
& p { margin: .5rem 0 0; }
& section { background: var(--panel); border: 1px solid var(--rim); border-radius: 8px;
  padding: 1rem 1.2rem; margin: 1rem 0 0; }
& dl { display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: .3rem .8rem;
  margin: .8rem 0 0; }
& dt { color: var(--soft); font-weight: normal; margin: 0; }
& dd { margin: 0; min-width: 0; }
& code, & pre { font: 13px/1.5 ui-monospace, monospace; color: inherit; background: none;
  border: 0; padding: 0; }
& code { background: var(--constant); border: 1px solid var(--rim); border-radius: 4px;
  padding: 0 .25em; }
& pre { margin: .4rem 0; padding: .5rem .7rem; background: var(--ground);
  border: 1px solid var(--rim); border-radius: 6px; overflow-x: auto; white-space: pre;
  overflow-wrap: normal; }
& .scroll { overflow-x: auto; margin: .8rem 0 0; }
& pre:focus-visible, & .scroll:focus-visible { outline: 2px solid var(--accent); }
& .soft { color: var(--soft); } & .bad { color: var(--bad); } & .look { color: var(--look); }
& .good { color: var(--good); } & .strong { font-weight: 700; }
& figure { display: inline-block; margin: 1rem 1rem 0 0; vertical-align: top; max-width: 100%; }
& figure svg { display: block; max-width: 100%; height: auto; border: 1px solid var(--rim); }
& figcaption { color: var(--soft); font-size: 13px; max-width: 264px; }
& table { border-collapse: collapse; font-size: 13px; margin: 0; color: inherit; }
& td, & th { padding: .15rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rim); background: none; }
& .text { text-align: left; }
& .key { display: inline-block; width: 1.1em; height: 1.1em; vertical-align: -.2em;
  border: 1px solid var(--soft); }
@media (max-width: 600px) {
  & { padding: .7rem; } & section { padding: .8rem; }
  & dl { grid-template-columns: minmax(0, 1fr); gap: 0; } & dt { margin-top: .5rem; }
}
"""

STYLE: Final = "\n".join(
    [
        f".{SCOPE} {{ color-scheme: light dark; {_variables('light')} }}",
        f"@media (prefers-color-scheme: dark) {{ .{SCOPE} {{ {_variables('dark')} }} }}",
        # JupyterLab and Visual Studio Code say on the body which theme they have.
        *[
            f":is([data-jp-theme-light={light}], .{code}) .{SCOPE} "
            f"{{ color-scheme: {scheme}; {_variables(scheme)} }}"
            for light, code, scheme in (
                ("true", "vscode-light", "light"),
                ("false", "vscode-dark", "dark"),
            )
        ],
        _RULES.strip().replace("&", f".{SCOPE}"),
    ]
)


def page(title: str, body: Sequence[str]) -> str:
    """A whole document in this style."""
    ground = PALETTE["ground"]
    styles = [
        STYLE,
        f"body {{ margin: 0; background: {ground.light}; }}",
        f"@media (prefers-color-scheme: dark) {{ body {{ background: {ground.dark}; }} }}",
    ]
    return document(title, "\n".join(styles), [f'<main class="{SCOPE}">', *body, "</main>"])


def document(title: str, styles: str, body: Sequence[str], policy: str = "") -> str:
    """A whole document; `policy` says what it may load and run."""
    stated = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        *([stated] if policy else []),
        f"<title>{escape(title)}</title>",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{styles}</style></head><body>",
        *body,
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def fragment(body: Sequence[str]) -> str:
    """The same as a part of a page of somebody else's, such as a notebook."""
    return "\n".join([f'<div class="{SCOPE}"><style>{STYLE}</style>', *body, "</div>"])


def to_html(text: str) -> str:
    """Words as HTML; what stands between backticks is code.

    >>> to_html("`a < b` holds")
    '<code>a &lt; b</code> holds'
    """
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one backtick too many is a backtick
        pieces[-2:] = ["`".join(pieces[-2:])]
    return "".join(
        [f"<code>{escape(s)}</code>" if i % 2 else escape(s) for i, s in enumerate(pieces)]
    )


def code(lines: Sequence[tuple[str, str]]) -> str:
    """Lines of code, each with its class (or none); a long one scrolls within its frame."""
    spans = [
        f'<span class="{style}">{escape(text)}</span>' if style else escape(text)
        for style, text in lines
    ]
    text = "\n".join(spans)
    return f'<pre tabindex="0">{text}</pre>' if spans else ""


def words(text: str) -> str:
    """Text as it stands in a terminal."""
    return code([("", line) for line in text.splitlines()])


def table(rows: Sequence[Sequence[str]], what: str, *, text: Container[int] = (0,)) -> str:
    """Rows, the first one their heading; numbers but for the columns in `text`.

    A wide table scrolls within its frame, which `what` names for those who do not see it.
    """
    if not rows:
        return ""

    def cell(tag: str, i: int, said: str) -> str:
        style = ' class="text"' if i in text else ""
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{style}{scope}>{to_html(said)}</{tag}>"

    head = "".join([cell("th", i, c) for i, c in enumerate(rows[0])])
    body = ["".join([cell("td", i, c) for i, c in enumerate(row)]) for row in rows[1:]]
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(what)}"><table>'
        f"<tr>{head}</tr>{''.join([f'<tr>{row}</tr>' for row in body])}</table></div>"
    )

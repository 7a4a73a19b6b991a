#!/bin/bash
# PyPI's html2text 2025.4.15 breaks a link of more than 78 characters after its last hyphen that fits, also inside `[...](...)`
# and `<...>`: in Markdown, neither is a link with a line break in it. Debian 12's html2text 1.3.2a, another program, does
# the same to a link in text. inscriptis 2.7.6, markdownify 1.2.3 and html2text with `body_width = 0` keep links whole. Hurt:
# readers of emails through a gateway to a chat, a ticket or a language model: links with a token end early, so they are
# refused, and short ones in a test work.
# Source: https://spec.commonmark.org/0.31.2/#link-destination
# Usage: findings/html2text-links.sh. Needs apt-get of Debian 12, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet html2text=1.3.2a-28
dpkg --extract html2text_*.deb .
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check html2text==2025.4.15 inscriptis==2.7.6 markdownify==1.2.3 \
  markdown-it-py==4.0.0
cat > convert.py <<'PYTHON'
import subprocess, sys
import html2text, inscriptis, markdownify
from markdown_it import MarkdownIt


def debian(html):
    return subprocess.run(["usr/bin/html2text"], input=html, capture_output=True, text=True, check=True).stdout


unwrapped = html2text.HTML2Text()
unwrapped.body_width = 0
CONVERTERS = {
    "html2text": html2text.html2text,
    "html2text, body_width = 0": unwrapped.handle,
    "Debian's html2text": debian,
    "markdownify": markdownify.markdownify,
    "inscriptis": inscriptis.get_text,
}
found = {}
for length in [16, 43]:
    url = f"https://example.com/verify-email?token={'a' * length}"
    html = f'<p><a href="{url}">Confirm the address</a></p><p><a href="{url}">{url}</a></p>'
    print(url)
    for name, convert in CONVERTERS.items():
        text = convert(html)
        links = MarkdownIt().render(text).count(f'href="{url}"')
        print(f"  {name}: whole {text.count(url)} times, links in Markdown: {links}; {text.strip()!r}")
        found[name, length] = text.count(url), links
expected = {
    ("html2text", 16): (2, 2),
    ("html2text, body_width = 0", 16): (2, 2),
    ("Debian's html2text", 16): (1, 0),
    ("markdownify", 16): (2, 2),
    ("inscriptis", 16): (1, 0),
    ("html2text", 43): (0, 0),
    ("html2text, body_width = 0", 43): (2, 2),
    ("Debian's html2text", 43): (0, 0),
    ("markdownify", 43): (2, 2),
    ("inscriptis", 43): (1, 0),
}
sys.exit(found != expected)
PYTHON
venv/bin/python convert.py

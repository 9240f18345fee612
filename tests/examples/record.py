"""`python -m tests.examples.record [NAME ...]`: write down what the examples print now."""

from __future__ import annotations

import sys

from tests.examples.playing import EXAMPLES, NAMES, play

for name in sys.argv[1:] or NAMES:
    played = play(name)
    (EXAMPLES / name / "expected.txt").write_text(played.output)
    (EXAMPLES / name / "usage.json").write_text(played.usage)
    print(name)

"""Print the table of limits into docs/limits.md; with --check, only see if it drifted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from runtime_actors.limits import page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "limits.md"


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Print the table of limits into docs/limits.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page has drifted")
    made = page()
    if not parser.parse_args().check:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == made:
        return 0
    print("docs/limits.md is not what the code says: run scripts/limits_page.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

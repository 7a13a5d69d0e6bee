# SPDX-License-Identifier: Apache-2.0
"""scripts/knowledge_check.py: which rows of the knowledge base are to be held against their sources again."""
from __future__ import annotations

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "knowledge_check.py"
TABLE = """name,value,as_of,source
old,1,2026-03,release notes; a forum
older,2,2026-03,release notes; a blog
new,3,2026-09,release notes
odd,4,soon,nobody
never,5,,memory
"""


def run(folder: pathlib.Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, str(SCRIPT), "--today", "2026-11-24", *words, str(folder)],
                          capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def test_old_rows_are_told_once_for_each_source(tmp_path: pathlib.Path) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    code, text = run(tmp_path)
    assert code == 1
    assert "table.csv: 2 rows as of 2026-03, 8 months ago; look at release notes\n" in text
    assert "table.csv: 1 row as_of 'soon' is not a date; look at nobody\n" in text
    assert "table.csv: 1 rows without as_of (--undated lists them)\n" in text
    assert text.endswith("3 rows are older than 6 months\n")


def test_rows_are_named_with_their_lines(tmp_path: pathlib.Path) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    _, text = run(tmp_path, "--rows", "--undated")
    assert "table.csv:3: older 2 2026-03: as of 2026-03, 8 months ago; look at release notes; a blog\n" in text
    assert "table.csv:6: never 5: no as_of; look at memory\n" in text


def test_fresh_rows_are_no_work(tmp_path: pathlib.Path) -> None:
    (tmp_path / "table.csv").write_text("name,as_of,source\nnew,2026-09,release notes\n")
    assert run(tmp_path) == (0, "0 rows are older than 6 months\n")
    assert run(tmp_path, "--months", "1")[0] == 1


def test_a_folder_without_tables_is_a_mistake(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path)[0] == 2


def test_every_table_of_the_knowledge_base_can_be_read() -> None:
    code, text = run(SCRIPT.parent.parent / "knowledge", "--months", "600")
    assert code == 0, text

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every sentence of src/ and apps/ that a user may read, in docs/messages.md: to be read in one go.

    scripts/messages.py            write docs/messages.md
    scripts/messages.py --check    exit 1 if it is not up to date

Errors (`fail(code, sentence, hint)`, `Error{...}`) stand with their hints; every other literal of two words or more
stands by itself; so does every line of prose of the manual's templates (*.man). Files are named, lines are not, so that the
page changes only when a sentence does.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "messages.md"
# callee: the argument that is the sentence; with a dot a member of that name (NamedValues::refuse)
ERRORS = {"fail": 1, "Error": 1, "error_from_errno": 1, ".refuse": 0}
NO_WORDS_FOR_PEOPLE = ("kernels.cpp", "shell.hpp", "_page.cpp", "packagings.cpp", "steps.cpp")

TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#[ \t]*(?:include|pragma)[^\n]*|\s+)
      |(?P<raw>R"(?P<mark>[^\s()\\]{0,16})\((?P<body>.*?)\)(?P=mark)")
      |(?P<string>"(?:[^"\\\n]|\\.)*")
      |(?P<char>'(?:[^'\\\n]|\\.)+')
      |(?P<number>\d(?:'?[\w.])*)
      |(?P<name>[A-Za-z_]\w*)
      |(?P<sign>.)""", re.S | re.M | re.X)


def tokens_of(text):
    """(kind, value) for each token; literals side by side are one."""
    out = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup not in ("mark", "body") else "raw"
        if match["raw"] is not None:
            kind, value = "text", match["body"]
        elif kind == "string":
            kind, value = "text", match["string"][1:-1].replace('\\"', '"').replace("\\\\", "\\")
        elif kind == "skip":
            continue
        else:
            value = match[0]
        if kind == "text" and out and out[-1][0] == "text":
            out[-1] = ("text", out[-1][1] + value)
        else:
            out.append((kind, value))
    return out


def constants_of(tokens):
    """kName -> the literal that it is made of, wherever a file has `kName = "..."`, `kName{"..."}`."""
    found = {}
    for i, (kind, value) in enumerate(tokens):
        if kind != "name" or not re.fullmatch(r"k[A-Z]\w*", value):
            continue
        for kind_next, value_next in tokens[i + 1:i + 5]:
            if kind_next == "text":
                found[value] = value_next
            if kind_next == "text" or value_next not in ("=", "{", "[", "]"):
                break
    return found


class Frame:
    """An open bracket: who is called with it, and what text its arguments hold."""

    def __init__(self, callee):
        self.callee, self.arguments = callee, [[]]

    def text(self, index):
        return " … ".join(self.arguments[index]) if index < len(self.arguments) else ""


def is_sentence(text):
    if re.search(r"\(\?|\\[bd\[]", text):  # a pattern of a regular expression
        return False
    words = re.findall(r"[A-Za-z][a-z'-]+", text)
    return len(words) >= 2 and " " in text.strip() and len(text) < 600 and not text.lstrip().startswith(("<", "#", "--"))


def read(path):
    """Errors as (sentence, hint) and all other sentences of a file."""
    tokens = tokens_of(path.read_text(encoding="utf-8"))
    constants = constants_of(tokens)
    errors, others, stack = [], [], [Frame(None)]

    def error_frame():
        return next((frame for frame in reversed(stack) if frame.callee in ERRORS), None)

    for i, (kind, value) in enumerate(tokens):
        if kind == "sign" and value in "([{":
            before = tokens[i - 1] if i else ("", "")
            callee = before[1] if before[0] == "name" else None
            if callee and i > 1 and tokens[i - 2][1] == "." and f".{callee}" in ERRORS:
                callee = f".{callee}"
            stack.append(Frame(callee))
        elif kind == "sign" and value in ")]}" and len(stack) > 1:
            frame = stack.pop()
            if frame.callee in ERRORS:
                first = ERRORS[frame.callee]
                errors.append((frame.text(first), frame.text(first + 1)))
        elif kind == "sign" and value == ",":
            stack[-1].arguments.append([])
        elif kind == "text" or (kind == "name" and value in constants and error_frame()):
            text = constants.get(value, value) if kind == "name" else value
            frame = error_frame()
            if frame and text:
                frame.arguments[-1].append(text)
            elif is_sentence(text):
                others.append(text)
    return [error for error in errors if error[0] or error[1]], others


def read_manual(path):
    """The lines of prose of a page in roff: no requests, no comments, no markup."""
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith((".", "'")))
    plain = (re.sub(r"\\f[A-Z]|\\(?=-)", "", line) for line in lines)
    return [], [line for line in plain if is_sentence(line)]


def cell(text):
    """One line of Markdown: no bars, no line ends."""
    text = re.sub(r"\s*(?:\\n|\n)\s*", " / ", text).strip(" /")
    return text.replace("|", "\\|").replace("<", "&lt;")


def room_of(path):
    parts = path.relative_to(ROOT).parts
    return "apps/gpuwarden" if parts[0] == "apps" else parts[2 if parts[0] == "include" else 1]


def page():
    rooms = {}
    for folder in ("src", "include/gpuwarden", "apps"):
        files = [path for pattern in ("*.[ch]pp", "*.man") for path in (ROOT / folder).rglob(pattern)]
        for path in sorted(files):
            if path.name.endswith(NO_WORDS_FOR_PEOPLE):
                continue
            errors, others = read_manual(path) if path.suffix == ".man" else read(path)
            if errors or others:
                rooms.setdefault(room_of(path), []).append((path, errors, others))
    lines = ["# Every message", "",
             "Made by `scripts/messages.py` from the sources; do not edit. `{}` stands for a value, … for what is put "
             "together, → for the hint.", ""]
    for room in sorted(rooms):
        lines += [f"## {room}", ""]
        for path, errors, others in rooms[room]:
            lines += [f"{path.relative_to(ROOT)}", ""]
            told = [f"- {cell(sentence)}" + (f" → {cell(hint)}" if hint else "") for sentence, hint in errors]
            told += [f"- {cell(sentence)}" for sentence in others]
            lines += list(dict.fromkeys(told)) + [""]
    return "\n".join(lines)


def main():
    fresh = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != fresh:
            sys.exit("docs/messages.md is out of date: run scripts/messages.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(fresh, encoding="utf-8")


main()

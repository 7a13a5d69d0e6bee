#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every sentence that a user may read, from the sources: errors in docs/messages.md, to be read in one go, all other
words in docs/words.md.

    scripts/messages.py            write both pages
    scripts/messages.py --check    exit 1 if one is not up to date

Errors (`fail(code, sentence, hint)`, `Error{...}`) stand with their hints, each once; those of fewer than three words
and lists of names (in which nothing is said) stand on the second page, with every other literal of two words or more
and the prose of the templates. Rooms and files are named, lines are not, so that a page changes only when a sentence does.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ERROR_PAGE = ROOT / "docs" / "messages.md"
WORD_PAGE = ROOT / "docs" / "words.md"
SOURCES = ("src", "include/gpuwarden", "apps", "sim/core", "bindings/python")
TEMPLATES = ROOT / "apps" / "gpuwarden" / "templates"
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
            elif is_sentence(bare := re.sub(r"^\[@\w+\] ", "", text)):  # without the kind of a step
                others.append(bare)
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
    if parts[0] == "include":
        return parts[2]
    return parts[1] if parts[0] == "src" else "/".join(parts[:2])


def is_told(sentence, hint):
    """Whether an error says something to be read: three words or more that are not all names."""
    text = f"{sentence} {hint}"
    words = re.findall(r"[A-Za-z][A-Za-z'-]*", text)
    names = re.findall(r"\b\w+(?:[_-]\w+)+\b|--?\w[\w-]*", text)
    return len(words) >= 3 and len(names) < len(text.split())


def prose_of(template):
    """The sentences of a template: what is neither a macro of roff nor code of a shell."""
    if template.suffix != ".man":
        return []
    lines = [line for line in template.read_text(encoding="utf-8").splitlines() if not line.startswith((".", "@"))]
    return [re.sub(r"\\f[BRI]|\\(?=-)", "", line) for line in lines if is_sentence(line)]


def entries():
    """(errors, words) as room -> [(path, lines)]."""
    errors_by_room, words_by_room = {}, {}
    files = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.[ch]pp"))]
    for path in files + sorted(TEMPLATES.iterdir()):
        if path.name.endswith(NO_WORDS_FOR_PEOPLE):
            continue
        errors, others = ([], prose_of(path)) if path.parent == TEMPLATES else read(path)
        lines = {True: [], False: []}
        for sentence, hint in errors:
            line = f"- {cell(sentence) or chr(0x2026)}" + (f" → {cell(hint)}" if hint else "")
            lines[is_told(sentence, hint)].append(line)
        lines[False] += [f"- {cell(sentence)}" for sentence in others]
        for told, rooms in ((True, errors_by_room), (False, words_by_room)):
            if lines[told]:
                rooms.setdefault(room_of(path), []).append((path, list(dict.fromkeys(lines[told]))))
    return errors_by_room, words_by_room


def page(title, about, rooms, each_once):
    """A page; with `each_once` what another file said before is left out, and files have no line of their own."""
    lines = [f"# {title}", "",
             f"Made by `scripts/messages.py` from the sources; do not edit. {about} `{{}}` stands for a value, … for "
             "what is put together, → for the hint.", ""]
    said = set()
    for room in sorted(rooms):
        lines += [f"## {room}", ""]
        for path, told in rooms[room]:
            if not each_once:
                lines += [str(path.relative_to(ROOT)), ""]
            lines += [line for line in told if line not in said]
            if each_once:
                said.update(told)
            else:
                lines.append("")
        if each_once:
            lines.append("")
    return "\n".join(lines)


def main():
    errors, words = entries()
    pages = {ERROR_PAGE: page("Every error", "What goes wrong, by rooms; all other words are in [words.md](words.md).",
                              errors, True),
             WORD_PAGE: page("All other words", "The errors are in [messages.md](messages.md).", words, False)}
    if sys.argv[1:] == ["--check"]:
        old = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        if old:
            sys.exit(f"{', '.join(str(path.relative_to(ROOT)) for path in old)} out of date: run scripts/messages.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference of the Python package, docs/python/reference/, from its docstrings; nothing is imported.

    scripts/python_reference.py            write the pages
    scripts/python_reference.py --check    exit 1 if one is not up to date, or a public name has no docstring
"""
import ast
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "gpuwarden"
PAGES = ROOT / "docs" / "python" / "reference"
#: Each page's module.
MODULES = ("gpuwarden", "gpuwarden.distributed", "gpuwarden.environment", "gpuwarden.gpu", "gpuwarden.profile", "gpuwarden.torch",
           "gpuwarden.pytest_plugin")


def file_of(module):
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class Module:
    _read = {}

    def __init__(self, name):
        self.name = name
        self.tree = ast.parse(file_of(name).read_text())
        self.assigned, self.defined, self.imported = {}, {}, {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                origin = node.module or ""
                if node.level:
                    package = name if file_of(name).name == "__init__.py" else name.rpartition(".")[0]
                    origin = f"{package}.{origin}".rstrip(".")
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (origin, alias.name)
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.defined[node.name] = node
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            for target in targets:
                if isinstance(target, ast.Name):
                    self.assigned[target.id] = node.value

    @classmethod
    def of(cls, name):
        if name not in cls._read:
            cls._read[name] = cls(name)
        return cls._read[name]

    def where(self):
        """The lazy packages' table of names."""
        table = self.assigned.get("_WHERE")
        return ast.literal_eval(table) if table is not None else {}

    def public(self):
        names = self.assigned.get("__all__")
        if isinstance(names, ast.List):
            return [name for name in ast.literal_eval(names) if not name.startswith("__")]
        if names is not None:
            return sorted(self.where())
        return [name for name in self.defined if not name.startswith("_")]

    def find(self, name):
        """The definition of a name, wherever it is; None for a plain value."""
        if name in self.defined:
            return self.defined[name]
        if name in self.where():
            return Module.of(f"{self.name}.{self.where()[name]}").find(name)
        if name in self.imported:
            origin, there = self.imported[name]
            return Module.of(origin).find(there) if origin.startswith("gpuwarden.") and file_of(origin).exists() else None
        value = self.assigned.get(name)
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id in self.imported:
            origin, there = self.imported[value.value.id]
            return Module.of(f"{origin}.{there}").find(value.attr)
        return None


def text_of(node):
    return inspect.cleandoc(ast.get_docstring(node, clean=False) or "")


def body(text):
    """A docstring as Markdown: what is indented is code or a list of arguments, and is kept as it stands."""
    out, block = [], []

    def flush():
        while block and not block[-1]:
            block.pop()
        if block:
            out.extend(["```text", *block, "```", ""])
        block.clear()

    for line in text.splitlines():
        heading = line in ("Args:", "Raises:", "Returns:", "Yields:", "Attributes:")
        if line.startswith(" ") or heading or (block and not line):
            block.append(line)
        else:
            flush()
            out.append(line)
    flush()
    return "\n".join(out).rstrip() + "\n" if out else ""


def signature(node, name, method=False):
    # What begins with an underscore is the package's own.
    arguments = ", ".join(one for one in split(ast.unparse(node.args)) if not one.startswith("_")).removesuffix(", *")
    if method and not any(ast.unparse(one) == "staticmethod" for one in node.decorator_list):
        arguments = arguments.partition(", ")[2] if ", " in arguments else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    line = f"{name}({arguments}){returns}"
    if len(line) <= 110:
        return line
    inside = ",\n    ".join(split(arguments))
    return f"{name}(\n    {inside},\n){returns}"


def split(arguments):
    parts, depth, at = [], 0, 0
    for i, sign in enumerate(arguments):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append(arguments[at:i].strip())
            at = i + 1
    return [*parts, arguments[at:].strip()]


def is_property(node):
    return any(ast.unparse(one) in ("property", "cached_property", "functools.cached_property") for one in node.decorator_list)


def inherited(module_of, node):
    """Members of bases of the package's own, then those of the class."""
    members = {}
    for base in node.bases:
        found = module_of.find(ast.unparse(base)) if isinstance(base, ast.Name) else None
        if isinstance(found, ast.ClassDef):
            members.update({name: one for name, one in inherited(home_of(found), found).items() if base.id == "_Closing"})
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            members[one.name] = one
    return members


def home_of(node):
    return next(module for module in Module._read.values() if node in module.defined.values())


def class_page(node, name, problems):
    home = home_of(node)
    first = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    bases = [ast.unparse(base) for base in node.bases]
    fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and not one.target.id.startswith("_")]
    if first is not None:
        shown = signature(first, name, method=True).removesuffix(" -> None")
    elif fields:
        shown = f"{name}({', '.join(ast.unparse(one) for one in fields)})"
        shown = shown if len(shown) <= 110 else f"{name}(\n    " + ",\n    ".join(ast.unparse(one) for one in fields) + ",\n)"
    else:
        values = [f"{ast.unparse(one.targets[0])} = {ast.unparse(one.value)}" for one in node.body
                  if isinstance(one, ast.Assign) and not ast.unparse(one.targets[0]).startswith("_")]
        shown = "\n".join([f"class {name}" + (f"({', '.join(bases)})" if bases else ""), *(f"    {one}" for one in values if "Enum" in str(bases))])
    out = [f"## {name}", "", "```python", shown, "```", "", body(text_of(node))]
    if not text_of(node):
        problems.append(f"{home.name}.{name}")
    for member, one in inherited(home, node).items():
        text = text_of(one)
        if not text and not is_property(one):
            problems.append(f"{home.name}.{name}.{member}")
        line = f"{member} -> {ast.unparse(one.returns)}" if is_property(one) and one.returns else member
        out += [f"### {name}.{member}", "", "```python", line if is_property(one) else signature(one, member, method=True), "```", ""]
        out += [body(text)] if text else []
    return out


def page(module, problems):
    read = Module.of(module)
    out = ["<!-- Written by scripts/python_reference.py from the docstrings; change those. -->", f"# {module}", "", body(text_of(read.tree))]
    names = [name for name in read.public() if read.find(name) is not None]
    out += [", ".join(f"[{name}](#{name.lower()})" for name in names), ""]
    for name in names:
        node = read.find(name)
        if isinstance(node, ast.ClassDef):
            out += class_page(node, name, problems)
            continue
        if not text_of(node):
            problems.append(f"{module}.{name}")
        out += [f"## {name}", "", "```python", signature(node, name), "```", "", body(text_of(node))]
    text = "\n".join(out).rstrip() + "\n"
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


def main():
    problems, wanted = [], {}
    for module in MODULES:
        wanted[PAGES / (module.rpartition(".")[2] + ".md")] = page(module, problems)
    for name in problems:
        print(f"no docstring: {name}")
    if sys.argv[1:] == ["--check"]:
        there = set(PAGES.glob("*.md"))
        stale = [path for path, text in wanted.items() if path not in there or path.read_text() != text]
        for path in stale + sorted(there - set(wanted)):
            print(f"{path.relative_to(ROOT)} is not up to date: run scripts/python_reference.py")
        return 1 if problems or stale or there - set(wanted) else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for path, text in wanted.items():
        path.write_text(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

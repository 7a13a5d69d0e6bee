#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds files (YAML, or JSON by their ending) against a JSON Schema.  check_schema.py SCHEMA FOLDER

Prints a line for each file, "NAME ok" or "NAME refused: where: why"; the exit code is 0 either way."""
import json
import pathlib
import sys

import jsonschema
import yaml


class NoDuplicates(yaml.SafeLoader):
    """PyYAML lets the last of two equal keys win."""

    def construct_mapping(self, node, deep=False):
        return unique([(self.construct_object(key, deep), value) for key, value in node.value]) and \
            super().construct_mapping(node, deep)


def unique(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError("a key is there twice: %s" % keys)
    return dict(pairs)


def read(path):
    text = path.read_text()
    if path.suffix == ".json":
        return json.loads(text, object_pairs_hook=unique)
    return yaml.load(text, NoDuplicates)


def complaint(validator, path):
    try:
        errors = sorted(validator.iter_errors(read(path)), key=str)
    except (ValueError, yaml.YAMLError) as error:
        return "file: %s" % error
    if not errors:
        return None
    worst = jsonschema.exceptions.best_match(errors)
    return "%s: %s" % ("/".join(map(str, worst.absolute_path)) or "top", worst.message)


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in sorted(pathlib.Path(sys.argv[2]).iterdir()):
        found = complaint(validator, path)
        print(path.name, "ok" if found is None else "refused: " + " ".join(found.split()))


main()

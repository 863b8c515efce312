"""Every example and default of an OpenAPI document fits the schema beside it.

usage: examples.py openapi.json; prints how many there were, one line for each that does not fit.
"""

import json
import sys

import jsonschema_rs

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def given(holder):
    """The examples that stand beside a schema, or in it."""
    for name in ("example", "default"):
        if name in holder:
            yield holder[name]
    examples = holder.get("examples", [])
    if isinstance(examples, dict):
        examples = [example["value"] for example in examples.values()]
    yield from examples


def schemas_with_examples(node, path=""):
    if isinstance(node, dict):
        inner = node.get("schema")
        if isinstance(inner, dict):
            for example in given(node):
                yield path, inner, example
        if "type" in node or "anyOf" in node or "oneOf" in node or "allOf" in node:
            for example in given(node):
                yield path, node, example
        for name, child in node.items():
            if name not in ("example", "examples", "default", "enum", "const"):
                yield from schemas_with_examples(child, f"{path}/{name}")
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from schemas_with_examples(child, f"{path}/{index}")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    count = 0
    wrong = []
    for path, schema, example in schemas_with_examples(document):
        count += 1
        # References start at the root.
        whole = {"$schema": DIALECT, "components": document["components"], "allOf": [schema]}
        errors = list(jsonschema_rs.iter_errors(whole, example))
        if errors:
            wrong.append(f"{path}: {json.dumps(example)}: {errors[0].message}")
    print(f"{count} examples")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

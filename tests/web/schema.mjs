// SPDX-License-Identifier: Apache-2.0
// What of JSON Schema the server's description of its API uses.
const kTypes = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};
const kWords = [
  "type",
  "enum",
  "anyOf",
  "required",
  "properties",
  "items",
  "minItems",
  "maxItems",
  "additionalProperties",
  "$ref",
  "description",
];

/** Where a value is not what a schema says, in words; empty where it is. */
export function mismatches(value, schema, schemas, path = "$") {
  const strange = Object.keys(schema).filter((word) => !kWords.includes(word));
  if (strange.length > 0) return [`${path}: this test does not know '${strange.join()}'`];
  if (schema.$ref) return mismatches(value, schemas[schema.$ref.split("/").pop()], schemas, path);
  if (schema.anyOf) {
    const tries = schema.anyOf.map((one) => mismatches(value, one, schemas, path));
    return tries.some((found) => found.length === 0) ? [] : tries.flat();
  }
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => kTypes[type](value)))
    return [`${path}: ${JSON.stringify(value)} is not ${types.join(" or ")}`];
  if (schema.enum && !schema.enum.includes(value))
    return [`${path}: ${JSON.stringify(value)} is none of ${schema.enum.join()}`];
  if (Array.isArray(value)) return inArray(value, schema, schemas, path);
  return kTypes.object(value) ? inObject(value, schema, schemas, path) : [];
}

function inArray(value, schema, schemas, path) {
  if (value.length < (schema.minItems ?? 0) || value.length > (schema.maxItems ?? Infinity))
    return [`${path}: ${value.length} entries`];
  return schema.items ? value.flatMap((entry, i) => mismatches(entry, schema.items, schemas, `${path}[${i}]`)) : [];
}

function inObject(value, schema, schemas, path) {
  const missing = (schema.required ?? []).filter((key) => !(key in value)).map((key) => `${path} has no '${key}'`);
  const wrong = Object.entries(value).flatMap(([key, entry]) => {
    const own =
      schema.properties?.[key] ??
      (typeof schema.additionalProperties === "object" ? schema.additionalProperties : null);
    return own ? mismatches(entry, own, schemas, `${path}.${key}`) : [];
  });
  return [...missing, ...wrong];
}

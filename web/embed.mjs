// SPDX-License-Identifier: Apache-2.0
// Writes the files of the page as C++: node web/embed.mjs FOLDER OUTPUT.cpp
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";

const kTypes = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** A string literal of any bytes, a line of the file a line. */
function literal(bytes) {
  const kPerLine = 120;
  const lines = [];
  let line = "";
  for (const byte of bytes) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x5c && byte !== 0x3f;
    line += plain ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, "0")}`;
    if (line.length >= kPerLine) {
      lines.push(`    "${line}"`);
      line = "";
    }
  }
  lines.push(`    "${line}"`);
  return lines.join("\n");
}

const [folder, output] = process.argv.slice(2);
const names = readdirSync(folder).sort();
const files = names.map((name) => {
  const bytes = readFileSync(join(folder, name));
  const type = kTypes[extname(name)];
  if (!type) throw new Error(`${name}: no type is known for such files`);
  return {
    path: name === "index.html" ? "/" : `/${name}`,
    type,
    bytes,
    etag: createHash("sha256").update(bytes).digest("hex").slice(0, 20),
  };
});
if (!files.some((file) => file.path === "/")) throw new Error(`${folder} has no index.html`);

const arrays = files.map((file, i) => `constexpr char kFile${i}[] =\n${literal(file.bytes)};`);
const rows = files.map(
  (file, i) => `    {"${file.path}", "${file.type}", {kFile${i}, sizeof kFile${i} - 1}, "\\"${file.etag}\\""},`,
);
writeFileSync(
  output,
  `// Made by web/embed.mjs.
#include "gpuwarden/serve/page.hpp"

#pragma GCC diagnostic ignored "-Woverlength-strings"

namespace gpuwarden::serve {
namespace {

${arrays.join("\n")}

constexpr PageFile kPageFiles[] = {
${rows.join("\n")}
};

}  // namespace

std::span<const PageFile> page_files() { return kPageFiles; }

}  // namespace gpuwarden::serve
`,
);

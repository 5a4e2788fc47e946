import { writeFile } from "node:fs/promises";

/** A node of the tree: where the next bit of an address leads, or what is known of all that begin so. */
type Tree = { [bit in "0" | "1"]?: Tree } & { code?: string };

/** Writes a file in MaxMind's format in which each prefix, in bits, is of a country. */
export async function writeCountries(path: string, countries: Readonly<Record<string, string>>): Promise<void> {
  const root: Tree = {};
  for (const [bits, code] of Object.entries(countries)) {
    let tree = root;
    for (const bit of bits as Iterable<"0" | "1">) tree = tree[bit] ??= {};
    tree.code = code;
  }
  const nodes: Tree[] = [];
  const collect = (tree: Tree): void => {
    if (tree.code !== undefined) return;
    nodes.push(tree);
    for (const next of [tree["0"], tree["1"]]) if (next !== undefined) collect(next);
  };
  collect(root);
  const data: Buffer[] = [];
  const placeOf = (code: string): number => {
    const place = data.reduce((sum, { length }) => sum + length, 0);
    data.push(mapOf({ country_code: code }));
    return nodes.length + 16 + place;
  };
  const pointer = (next: Tree | undefined): number =>
    next === undefined ? nodes.length : next.code !== undefined ? placeOf(next.code) : nodes.indexOf(next);
  const tree = Buffer.concat(nodes.flatMap((node) => [node["0"], node["1"]].map((next) => unsigned(pointer(next), 4))));
  const about = mapOf({
    ...{ node_count: nodes.length, record_size: 32, ip_version: 4, database_type: "test" },
    ...{ binary_format_major_version: 2, binary_format_minor_version: 0 },
  });
  const marker = Buffer.from("\xab\xcd\xefMaxMind.com", "latin1");
  await writeFile(path, Buffer.concat([tree, Buffer.alloc(16), ...data, marker, about]));
}

const unsigned = (value: number, bytes: number): Buffer => {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
};

const textOf = (text: string): Buffer => Buffer.concat([Buffer.of((2 << 5) | text.length), Buffer.from(text)]);
const numberOf = (value: number): Buffer => Buffer.concat([Buffer.of((6 << 5) | 4), unsigned(value, 4)]);

const mapOf = (fields: Readonly<Record<string, string | number>>): Buffer =>
  Buffer.concat([
    Buffer.of((7 << 5) | Object.keys(fields).length),
    ...Object.entries(fields).flatMap(([key, value]) => [
      textOf(key),
      typeof value === "string" ? textOf(value) : numberOf(value),
    ]),
  ]);

import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { runProgramSync } from "@svc/runtime/programs";
import fc from "fast-check";
import { pack } from "tar-stream";
import { describe, expect, test } from "vitest";
import { RefusedArchiveError } from "./archive-refusal.ts";
import { createTarReader, type TarHeader } from "./tar.ts";
import { paxRecords, type RawEntry, rawTar, tarEnd, tarEntry, tarHeader } from "./testing/tar.ts";

type Found = TarHeader & { content: string };

/** Everything that is in a tar which arrives in pieces of `pieceBytes`. */
function readAll(tar: Uint8Array, pieceBytes = tar.length): Found[] {
  const reader = createTarReader();
  const found: { header: TarHeader; pieces: Uint8Array[] }[] = [];
  for (let at = 0; at < tar.length; at += pieceBytes) {
    for (const part of reader.read(tar.subarray(at, at + pieceBytes))) {
      if ("header" in part) found.push({ header: part.header, pieces: [] });
      else found.at(-1)?.pieces.push(Buffer.from(part.content));
    }
  }
  reader.end();
  return found.map(({ header, pieces }) => ({ ...header, content: Buffer.concat(pieces).toString() }));
}

function refusal(tar: Uint8Array): string {
  try {
    readAll(tar);
  } catch (error) {
    if (error instanceof RefusedArchiveError) return `${error.reason}: ${error.message}`;
    throw error;
  }
  return "accepted";
}

const file = (entry: Partial<RawEntry> = {}): RawEntry => ({ name: "a", content: "text", ...entry });
const pax = (records: Record<string, string>): RawEntry => ({ name: "pax", type: "x", content: paxRecords(records) });
const longName = `${"d".repeat(60)}/${"é".repeat(70)}/${"n".repeat(120)}`;

describe("what packers write", () => {
  test.each(["gnu", "pax", "ustar"] as const)("tar --format=%s", (format) => {
    const dir = mkdtempSync(join(tmpdir(), "svc-tar-"));
    try {
      // ustar holds no more than this.
      const long = format === "ustar" ? `${"d".repeat(90)}/${"n".repeat(90)}` : longName;
      mkdirSync(join(dir, long, ".."), { recursive: true });
      writeFileSync(join(dir, long), "long");
      writeFileSync(join(dir, "run.sh"), "#!/bin/sh\n", { mode: 0o755 });
      writeFileSync(join(dir, "big"), "b".repeat(70_000));
      symlinkSync("run.sh", join(dir, "link"));
      linkSync(join(dir, "big"), join(dir, "second"));
      const tar = runProgramSync(["tar", "--format", format, "--sort=name", "-C", dir, "-cf", "-", "."], {
        maxBuffer: 10_000_000,
      });
      const found = readAll(tar, 1000);
      const facts = found.map(({ name, type, linkname, content }) => [name, type, linkname, content.length]);
      expect(facts).toContainEqual(["./big", "file", "", 70_000]);
      expect(facts).toContainEqual(["./second", "hardlink", "./big", 0]);
      expect(facts).toContainEqual(["./link", "symlink", "run.sh", 0]);
      expect(facts).toContainEqual([`./${long}`, "file", "", 4]);
      expect(found.find(({ name }) => name === "./run.sh")?.mode).toBe(0o755);
      expect(readAll(tar)).toEqual(found);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });

  test("tar-stream, whatever the names, in pieces of any size", async () => {
    const names = fc.uniqueArray(fc.stringMatching(/^[a-zé€🚲/]{1,200}[a-z]$/u), { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(names, fc.integer({ min: 1, max: 2000 }), fc.string(), async (paths, pieceBytes, content) => {
        const tar = pack();
        for (const name of paths) tar.entry({ name, mode: 0o600 }, content);
        tar.finalize();
        const found = readAll(await buffer(tar as AsyncIterable<Uint8Array>), pieceBytes);
        expect(found.map(({ name }) => name)).toEqual(paths);
        for (const each of found) expect(each.content).toBe(Buffer.from(content).toString());
      }),
      { numRuns: 50 },
    );
  });

  test("a global header with a comment, as git archive writes it", () => {
    const tar = rawTar({ name: "pax_global_header", type: "g", content: paxRecords({ comment: "abc" }) }, file());
    expect(readAll(tar)).toMatchObject([{ name: "a", type: "file", content: "text" }]);
  });

  test("an old way to mark a directory, and a record filled up with zeros", () => {
    const tar = Buffer.concat([rawTar({ name: "d/", type: "\0" }), Buffer.alloc(10_240)]);
    expect(readAll(tar)).toMatchObject([{ name: "d/", type: "directory" }]);
  });

  test("a size in binary", () => {
    const sizeField = Buffer.alloc(12);
    sizeField[0] = 0x80;
    sizeField[11] = 4;
    expect(readAll(rawTar(file({ sizeField })))).toMatchObject([{ sizeBytes: 4, content: "text" }]);
  });
});

const binarySize = (...bytes: number[]): Buffer =>
  Buffer.concat([Buffer.of(0x80), Buffer.alloc(11 - bytes.length), Buffer.from(bytes)]);
const flipped = (tar: Buffer, at: number): Buffer => {
  const copy = Buffer.from(tar);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
};

describe("what is refused", () => {
  test.each<{ when: string; tar: Buffer; because: string }>([
    { when: "it is empty", tar: Buffer.alloc(0), because: "cut off" },
    { when: "it has no end", tar: tarEntry(file()), because: "cut off" },
    { when: "it has half an end", tar: Buffer.concat([tarEntry(file()), Buffer.alloc(512)]), because: "cut off" },
    { when: "a file is cut", tar: tarEntry(file({ content: "x".repeat(900) })).subarray(0, 1000), because: "cut off" },
    { when: "a header is cut", tar: tarHeader(file()).subarray(0, 200), because: "cut off" },
    { when: "an extended header has no entry", tar: rawTar(pax({ path: "b" })), because: "cut off" },
    { when: "it is text", tar: Buffer.from("hello".repeat(500)), because: "not a tar" },
    { when: "a bit of a header is flipped", tar: flipped(rawTar(file()), 3), because: "not a tar" },
    { when: "it is of an unknown format", tar: rawTar(file({ magic: "" })), because: "not a tar" },
    {
      when: "another archive follows",
      tar: Buffer.concat([rawTar(file()), rawTar(file({ name: "b" }))]),
      because: "goes on behind",
    },
    {
      when: "an empty block is in the middle",
      tar: Buffer.concat([tarEntry(file()), Buffer.alloc(512), rawTar(file())]),
      because: "goes on behind",
    },
    {
      when: "it ends in endless zeros",
      tar: Buffer.concat([rawTar(file()), Buffer.alloc(3_000_000)]),
      because: "too-large",
    },
    { when: "a name is not UTF-8", tar: rawTar(file({ name: Buffer.of(0x61, 0xe9) })), because: "UTF-8" },
    {
      when: "a link's target is not UTF-8",
      tar: rawTar({ name: "a", type: "2", linkname: Buffer.of(0xff) }),
      because: "UTF-8",
    },
    {
      when: "an extended name is not UTF-8",
      tar: rawTar({ name: "p", type: "x", content: Buffer.from("10 path=\xe9\n", "latin1") }, file()),
      because: "UTF-8",
    },
    {
      when: "an extended header is damaged",
      tar: rawTar({ name: "p", type: "x", content: "99 path=a\n" }, file()),
      because: "damaged",
    },
    {
      when: "an extended header has no numbers",
      tar: rawTar({ name: "p", type: "x", content: "path=a\n" }, file()),
      because: "damaged",
    },
    {
      when: "an extended header is huge",
      tar: tarHeader({ name: "p", type: "x", sizeBytes: 2 ** 30 }),
      because: "too-large",
    },
    { when: "a long name is huge", tar: tarHeader({ name: "p", type: "L", sizeBytes: 2 ** 30 }), because: "too-large" },
    { when: "a name is given twice", tar: rawTar(pax({ path: "b" }), pax({ path: "c" }), file()), because: "twice" },
    {
      when: "a global header renames",
      tar: rawTar({ name: "g", type: "g", content: paxRecords({ path: "b" }) }, file()),
      because: "renames",
    },
    { when: "a pax size is no number", tar: rawTar(pax({ size: "-1" }), file()), because: "no number" },
    {
      when: "a file is sparse in the way of pax",
      tar: rawTar(pax({ "GNU.sparse.major": "1" }), file()),
      because: "sparse",
    },
    {
      when: "a link has content",
      tar: rawTar({ name: "l", type: "2", linkname: "a", content: "x" }),
      because: "content",
    },
    { when: "a directory has content", tar: rawTar({ name: "d", type: "5", content: "x" }), because: "content" },
    { when: "a size is negative", tar: rawTar(file({ sizeField: Buffer.alloc(12, 0xff) })), because: "negative" },
    {
      when: "a size is beyond counting",
      tar: rawTar(file({ sizeField: binarySize(1, 0, 0, 0, 0, 0, 0, 0) })),
      because: "too-large",
    },
    {
      when: "a size is not octal",
      tar: rawTar(file({ sizeField: Buffer.from("99999999999\0") })),
      because: "not a tar",
    },
  ])("when $when", ({ tar, because }) => {
    expect(refusal(tar)).toContain(because);
  });

  test("extended headers without end are refused before they are all read", () => {
    const reader = createTarReader();
    const comment = tarEntry({ name: "p", type: "x", content: paxRecords({ comment: "c".repeat(900_000) }) });
    let rounds = 0;
    expect(() => {
      for (; rounds < 1000; rounds++) for (const _ of reader.read(comment));
    }).toThrow(RefusedArchiveError);
    expect(rounds).toBeLessThan(80);
  });

  test("whatever the damage, it is an archive or a refusal", () => {
    const good = rawTar(
      pax({ path: longName }),
      file(),
      { name: "d", type: "5" },
      { name: "l", type: "2", linkname: "a" },
    );
    const damage = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 4 });
    fc.assert(
      fc.property(damage, fc.nat(good.length), (changes, end) => {
        const tar = Buffer.from(good);
        for (const [at, value] of changes) tar[at] = value;
        refusal(tar.subarray(0, end));
      }),
      { numRuns: 3000 },
    );
  });

  test("every cut is noticed", () => {
    const good = rawTar(file(), file({ name: "b", content: "y".repeat(600) }));
    for (let end = 0; end < good.length; end++) expect(refusal(good.subarray(0, end))).not.toBe("accepted");
    expect(tarEnd.length + 3 * 512 + 1024).toBe(good.length);
  });
});

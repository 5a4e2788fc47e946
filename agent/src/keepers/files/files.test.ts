import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { type CopyPart, type CopyRequest, copyBytesMax, copyListing, partGone } from "@svc/proto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { serveCopyFiles } from "./serve.ts";

let root = "";
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "svc-copy-"));
});
afterEach(() => rm(root, { recursive: true, force: true }));

async function put(path: string, content: Buffer | string): Promise<void> {
  await mkdir(join(root, path, ".."), { recursive: true });
  await writeFile(join(root, path), content);
}

async function ask(request: CopyRequest | object, content: Buffer = Buffer.alloc(0)): Promise<Buffer> {
  const served = serveCopyFiles({
    find: async () => root,
    async make() {
      await mkdir(root, { recursive: true });
      return root;
    },
  });
  served.write(Buffer.from(`${JSON.stringify(request)}\n`));
  if (content.length > 0) served.write(content);
  served.end();
  return buffer(served);
}
const listing = async () => copyListing.parse(JSON.parse((await ask({ do: "list" })).toString()));
const list = async () => (await listing()).files;

/** The parts of an answer; null: gone. */
async function read(...parts: CopyPart[]): Promise<(string | null)[]> {
  let answer = await ask({ do: "read", parts });
  return parts.map(() => {
    const length = answer.readUInt32BE();
    const isGone = length === partGone;
    const content = isGone ? null : answer.subarray(4, 4 + length).toString();
    answer = answer.subarray(4 + (isGone ? 0 : length));
    return content;
  });
}

test("what is listed is what keepers have made, and nothing that is half made or leads elsewhere", async () => {
  await put("engine", "postgres\n");
  await put("engine.new", "x");
  await put("reading", "");
  await put("status", "svc-copy 1\n");
  await put("bases/000001/base.tar.zst", "base");
  await put("bases/new/base.tar.zst", "half");
  await put("logs/000001/000000010000000000000001", "log");
  await put("logs/000001/000000010000000000000002.partial", "");
  await put("logs/000001/end.new", "x");
  await put("elsewhere/secret", "secret");
  await symlink(join(root, "elsewhere"), join(root, "bases/000002"));
  await symlink(join(root, "elsewhere/secret"), join(root, "logs/000001/link"));
  const files = await list();
  expect(files.map(({ path }) => path)).toEqual([
    ...["engine", "reading", "bases/000001/base.tar.zst"],
    ...["logs/000001/000000010000000000000001", "logs/000001/000000010000000000000002.partial"],
  ]);
  expect((await listing()).status).toBe("svc-copy 1\n");
  const [engine] = files;
  await put("engine", "postgres!\n");
  expect((await list())[0]).not.toEqual(engine);
});

test("parts are read where they are, and what is gone or shorter says so", async () => {
  await put("bases/000001/dump.sql.zst", "0123456789");
  const part = (path: string, at: number, length: number) => ({ path, at, length });
  expect(
    await read(
      part("bases/000001/dump.sql.zst", 2, 3),
      part("bases/000001/gone", 0, 1),
      part("bases/000001/dump.sql.zst", 9, 2),
      part("bases/000001/dump.sql.zst", 10, 0),
      part("bases/000002/dump.sql.zst", 0, 1),
    ),
  ).toEqual(["234", null, null, "", null]);
});

describe("nothing outside of the copy is read or written", () => {
  test.each([["../x"], ["/etc/passwd"], ["bases/000001/../../x"], ["bases/new/x"], ["lock"], ["logs/000001/a/b"]])(
    "%s",
    async (path) => {
      await expect(ask({ do: "read", parts: [{ path, at: 0, length: 1 }] })).rejects.toThrow();
      await expect(ask({ do: "write", parts: [{ path, at: 0, length: 1 }] }, Buffer.from("x"))).rejects.toThrow();
    },
  );

  test("not by a link in place of a directory or a file either", async () => {
    const outside = await mkdtemp(join(tmpdir(), "svc-outside-"));
    try {
      await writeFile(join(outside, "at"), "secret");
      await put("bases/000001/at", "x");
      await symlink(outside, join(root, "bases/000002"));
      await symlink(join(outside, "at"), join(root, "bases/000001/link"));
      const parts = ["bases/000002/at", "bases/000001/link"].map((path) => ({ path, at: 0, length: 1 }));
      expect(await read(...parts)).toEqual([null, null]);
      for (const part of parts) {
        await expect(ask({ do: "write", parts: [part] }, Buffer.from("y"))).rejects.toThrow();
      }
      expect(await readFile(join(outside, "at"), "utf8")).toBe("secret");
    } finally {
      await rm(outside, { recursive: true, force: true });
    }
  });
});

test("what is written from the parts of one copy is that copy", async () => {
  const base = randomBytes(300_000);
  await put("engine", "mariadb\n");
  await put("bases/000001/dump.sql.zst", base);
  await put("logs/000001/binlog.000001", "log");
  const files = await list();
  const from = root;
  root = `${from}-other`;
  try {
    const half = 100_000;
    await ask(
      {
        do: "write",
        parts: [
          { path: "engine", at: 0, length: 8 },
          { path: "bases/000001/dump.sql.zst", at: half, length: base.length - half },
        ],
      },
      Buffer.concat([Buffer.from("mariadb\n"), base.subarray(half)]),
    );
    const parts = [
      { path: "bases/000001/dump.sql.zst", at: 0, length: half },
      { path: "logs/000001/binlog.000001", at: 0, length: 3 },
    ];
    const answer = await ask({ do: "write", parts }, Buffer.concat([base.subarray(0, half), Buffer.from("log")]));
    expect(JSON.parse(answer.toString())).toEqual({ ok: true });
    expect((await list()).map(({ path, size }) => [path, size])).toEqual(files.map(({ path, size }) => [path, size]));
    expect((await readFile(join(root, "bases/000001/dump.sql.zst"))).equals(base)).toBe(true);
  } finally {
    await rm(root, { recursive: true, force: true });
    root = from;
  }
});

test.each<[why: string, request: object, content?: Buffer]>([
  ["no request at all", { do: "dance" }],
  ["more bytes than are taken at once", { do: "read", parts: [{ path: "engine", at: 0, length: copyBytesMax + 1 }] }],
  ["fewer bytes than it says", { do: "write", parts: [{ path: "engine", at: 0, length: 5 }] }, Buffer.from("four")],
  ["a field that nobody knows", { do: "list", all: true }],
])("refused: %s", async (_, request, content) => {
  await put("engine", "postgres");
  await expect(ask(request, content)).rejects.toThrow();
});

test("a base that goes while the files are listed is not named", async () => {
  await put("bases/000001/at", "x");
  const listed = list();
  await rename(join(root, "bases/000001"), join(root, "bases/gone"));
  const paths = (await listed).map(({ path }) => path);
  expect(paths.every((path) => path === "bases/000001/at")).toBe(true);
  expect(await list()).toEqual([]);
});

import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { limits } from "@svc/proto";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { paxRecords, type RawEntry, rawTar, tarEntry, tarHeader } from "../../../../../proto/src/testing/tar.ts";
import { type RegistryProcess, startDockerRegistry } from "../../../../../registry/src/testing/docker-registry.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { aBomb } from "../testing/bomb.ts";
import { aSource, codeOf, formOf, storedSources } from "../testing/source.ts";

const mebibyte = 1024 * 1024;
const gibibyte = 1024 * mebibyte;
let registry: RegistryProcess;
let api: TestApi;
let user: TestUser;

beforeAll(async () => {
  registry = await startDockerRegistry();
  api = await testApi({ registryUrl: registry.url });
  user = await api.newUser({ plan: { max_upload_mb: 20, max_deploys_per_hour: 1000 } });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("deployment").execute());

const deploy = (project: Pick<Project, "id">, source: Uint8Array, owner = user) =>
  api.call("POST", `/projects/${project.id}/deployments`, {
    session: owner.session,
    body: formOf({ source: Buffer.from(source) }),
  });

/** What the refusal says; nothing of the archive may be stored. */
async function refusalOf(source: Uint8Array, owner = user): Promise<string> {
  const project = await api.newProject(owner);
  const answer = await deploy(project, source, owner);
  expect(codeOf(answer)).toEqual([422, "VALIDATION"]);
  expect(await storedSources(registry, project.id)).toEqual([]);
  const rows = await api.db.selectFrom("deployment").select("id").where("project_id", "=", project.id).execute();
  expect(rows).toEqual([]);
  return answer.body.error.message;
}

const plain: RawEntry = { name: "a.txt", content: "a" };
const clearScreen = "\u001b[2J";

describe("one bad entry refuses the whole archive, and the answer names it", () => {
  test.each<{ what: string; entries: RawEntry[]; names: string; because: string }>([
    { what: "climbs out", entries: [{ name: "../evil" }], names: '"../evil"', because: "points out of the archive" },
    {
      what: "climbs out midway",
      entries: [{ name: "a/../../evil" }],
      names: "evil",
      because: "points out of the archive",
    },
    { what: "is absolute", entries: [{ name: "/etc/cron.d/evil" }], names: '"/etc/cron.d/evil"', because: "absolute" },
    { what: "has backslashes", entries: [{ name: "..\\evil" }], names: "evil", because: "backslash" },
    {
      what: "is a link to outside",
      entries: [{ name: "l", type: "2", linkname: "../etc" }],
      names: '"l"',
      because: "points out of the archive",
    },
    {
      what: "is a link to an absolute name",
      entries: [{ name: "l", type: "2", linkname: "/etc/passwd" }],
      names: '"l"',
      because: "absolute",
    },
    {
      what: "is a link that leaves through another",
      entries: [
        { name: "d", type: "5" },
        { name: "d/l", type: "2", linkname: ".." },
        { name: "d/l/evil", content: "x" },
      ],
      names: '"d/l/evil"',
      because: "not a directory",
    },
    {
      what: "is a link that climbs behind another",
      entries: [{ name: "l", type: "2", linkname: "d/../../etc" }],
      names: '"l"',
      because: "climbs midway",
    },
    {
      what: "is a hard link to outside",
      entries: [{ name: "h", type: "1", linkname: "../../etc/passwd" }],
      names: '"h"',
      because: "not an earlier file",
    },
    {
      what: "is a hard link through a link",
      entries: [
        { name: "l", type: "2", linkname: "a.txt" },
        { name: "h", type: "1", linkname: "l" },
      ],
      names: '"h"',
      because: "not an earlier file",
    },
    { what: "is a device", entries: [{ name: "sda", type: "4" }], names: '"sda"', because: "is a device" },
    { what: "is a terminal", entries: [{ name: "tty", type: "3" }], names: '"tty"', because: "is a device" },
    { what: "is a pipe", entries: [{ name: "p", type: "6" }], names: '"p"', because: "named pipe" },
    { what: "is of an unknown kind", entries: [{ name: "s", type: "s" }], names: '"s"', because: "neither a file" },
    { what: "is sparse", entries: [{ name: "s", type: "S" }], names: '"s"', because: "sparse" },
    { what: "is setuid", entries: [{ name: "su", mode: 0o4755 }], names: '"su"', because: "setuid" },
    { what: "is setgid", entries: [{ name: "sg", mode: 0o2755 }], names: '"sg"', because: "setgid" },
    { what: "comes twice", entries: [plain, { name: "./a.txt", content: "b" }], names: '"./a.txt"', because: "twice" },
    { what: "comes as two kinds", entries: [{ name: "d/x" }, { name: "d" }], names: '"d"', because: "twice" },
    {
      what: "looks like another",
      entries: [{ name: "caf\u00e9" }, { name: "cafe\u0301" }],
      names: "cafe",
      because: "another Unicode form",
    },
    {
      what: "differs from another only in case",
      entries: [{ name: "README.md" }, { name: "readme.md" }],
      names: "readme.md",
      because: "upper and lower case",
    },
    {
      what: "has a control character",
      entries: [{ name: `${clearScreen}x` }],
      names: '"\\u001b[2Jx"',
      because: "characters",
    },
    { what: "has a line end", entries: [{ name: "a\nb" }], names: '"a\\nb"', because: "characters" },
    {
      what: "has a NUL",
      entries: [{ name: "p", type: "x", content: paxRecords({ path: "a\0b" }) }, plain],
      names: '"a\\u0000b"',
      because: "characters",
    },
    { what: "is not UTF-8", entries: [{ name: Buffer.of(0x61, 0xff, 0xfe) }], names: '"a', because: "not UTF-8" },
    {
      what: "is too deep",
      entries: [{ name: "p", type: "L", content: `${"d/".repeat(limits.archiveDepthMax)}f` }, plain],
      names: '"d/d/',
      because: "too deep",
    },
    {
      what: "has a path that is too long",
      entries: [{ name: "p", type: "L", content: `${`${"d".repeat(200)}/`.repeat(6)}f` }, plain],
      names: '"ddd',
      because: "too long",
    },
    {
      what: "has a name that is too long",
      entries: [{ name: "p", type: "L", content: "n".repeat(256) }, plain],
      names: '"nnn',
      because: "too long",
    },
  ])("that $what", async ({ entries, names, because }) => {
    const message = await refusalOf(aSource({ name: "before.txt", content: "x" }, ...entries));
    expect(message).toContain("The archive was refused");
    expect(message).toContain(names);
    expect(message).toContain(because);
    expect(message).not.toContain(clearScreen);
  });
});

describe("what is no whole archive is refused", () => {
  const tar = rawTar(plain, { name: "b.txt", content: randomBytes(2000) });
  const packed = gzipSync(tar);
  test.each<{ what: string; source: Uint8Array; because: string }>([
    { what: "nothing", source: Buffer.alloc(0), because: "it is empty" },
    { what: "a zip", source: Buffer.from("PK\u0003\u0004"), because: "not gzipped" },
    { what: "a tar without compression", source: tar, because: "not gzipped" },
    { what: "text", source: gzipSync("hello ".repeat(500)), because: "not a tar" },
    { what: "an archive in an archive's compression", source: gzipSync(packed), because: "not a tar" },
    { what: "a tar without entries", source: gzipSync(rawTar()), because: "no file" },
    {
      what: "a tar of directories",
      source: aSource({ name: ".//", type: "5" }, { name: "d/", type: "5" }),
      because: "no file",
    },
    { what: "a cut tar", source: gzipSync(tar.subarray(0, 1536)), because: "cut off" },
    { what: "cut compression", source: packed.subarray(0, -10), because: "" },
    { what: "a wrong checksum", source: Buffer.concat([packed.subarray(0, -8), Buffer.alloc(8)]), because: "checksum" },
    { what: "something behind it", source: Buffer.concat([packed, Buffer.from("evil")]), because: "follows" },
    { what: "a second archive behind it", source: Buffer.concat([packed, packed]), because: "follows" },
    {
      what: "a second tar in it",
      source: gzipSync(Buffer.concat([tar, rawTar({ name: "../evil" })])),
      because: "goes on behind",
    },
  ])("$what", async ({ source, because }) => {
    const message = await refusalOf(source);
    expect(message).toContain("The archive was refused");
    expect(message).toContain(because);
  });

  test("cut at every block of its tar", async () => {
    for (let end = 512; end < tar.length; end += 512) await refusalOf(gzipSync(tar.subarray(0, end)));
  });
});

test("what packers usually make is accepted", async () => {
  const project = await api.newProject(user);
  const source = aSource(
    { name: "pax_global_header", type: "g", content: paxRecords({ comment: "0123456789abcdef" }) },
    { name: ".//", type: "5", mode: 0o2775 },
    { name: "./src/", type: "5", mode: 0o2775 },
    { name: "./src/run.sh", mode: 0o755, content: "#!/bin/sh\n" },
    { name: "./src/again.sh", type: "1", linkname: "./src/run.sh" },
    { name: "./bin", type: "2", linkname: "src" },
    { name: "./src/up", type: "2", linkname: "../README" },
    { name: "./README", content: "" },
    {
      name: "p",
      type: "x",
      content: paxRecords({ path: `./${"d".repeat(150)}/na\u00efve \u{1f6b2}.txt`, mtime: "1.5" }),
    },
    { name: "short", content: "long" },
  );
  expect((await deploy(project, source)).status).toBe(202);
});

describe("a bomb", () => {
  test("may unpack to ten times what the plan lets it have packed, and to not one byte more", async () => {
    const owner = await api.newUser({ plan: { max_upload_mb: 1 } });
    const project = await api.newProject(owner);
    const half = Buffer.alloc(5 * mebibyte);
    const full = (more: number) =>
      aSource({ name: "a", content: half }, { name: "b", content: Buffer.concat([half, Buffer.alloc(more)]) });
    expect(await refusalOf(full(1), owner)).toContain('"b" unpacks to more than is allowed');
    expect((await deploy(project, full(0), owner)).status).toBe(202);
  });

  const fileOf = (name: string, sizeBytes: number) => tarHeader({ name, sizeBytes });
  const binary = Buffer.concat([Buffer.of(0x80), Buffer.alloc(4), Buffer.alloc(7, 0xff)]);
  test.each<{ what: string; make: () => Buffer; because: string }>([
    {
      what: "one file of 10 GiB",
      make: () => aBomb([fileOf("zeros", 8 * gibibyte - 1)], 10 * gibibyte),
      because: '"zeros" unpacks to more than is allowed',
    },
    {
      what: "many files of 64 MiB",
      make: () =>
        aBomb(
          Array.from({ length: 160 }, (_, at) => fileOf(`f${at}`, 64 * mebibyte)),
          64 * mebibyte,
        ),
      because: "unpacks to more than is allowed",
    },
    {
      what: "10 GiB behind the end",
      make: () => aBomb([tarEntry(plain)], 10 * gibibyte),
      because: "goes on behind its end",
    },
    {
      what: "a name of 1 GiB",
      make: () => aBomb([tarHeader({ name: "p", type: "L", sizeBytes: gibibyte })], gibibyte),
      because: "extended header is too long",
    },
    {
      what: "a pax header of 1 GiB",
      make: () => aBomb([tarHeader({ name: "p", type: "x", sizeBytes: gibibyte })], gibibyte),
      because: "extended header is too long",
    },
    {
      what: "a size written in binary",
      make: () => gzipSync(tarHeader({ name: "big", sizeField: binary })),
      because: "larger than any disk",
    },
    {
      what: "a million directories",
      make: () => {
        const deep = (at: number) => `${at}/${"d/".repeat(limits.archiveDepthMax - 2)}f`;
        const entries = Array.from({ length: 20_000 }, (_, at) => ({ name: "p", type: "L", content: deep(at) }));
        return gzipSync(Buffer.concat(entries.map((entry) => Buffer.concat([tarEntry(entry), tarEntry(plain)]))));
      },
      because: `one of more than ${limits.archiveEntriesMax} entries`,
    },
  ])("$what is refused at once, in little memory", async ({ make, because }) => {
    const source = make();
    expect(source.length).toBeLessThan(20 * mebibyte);
    const before = process.memoryUsage.rss();
    let rss = before;
    const watching = setInterval(() => {
      rss = Math.max(rss, process.memoryUsage.rss());
    }, 20);
    const started = process.cpuUsage();
    try {
      expect(await refusalOf(source)).toContain(because);
    } finally {
      clearInterval(watching);
    }
    // The plan lets 200 MiB through; time at the clock would measure the neighbours.
    const { user: inUser, system } = process.cpuUsage(started);
    expect((inUser + system) / 1000).toBeLessThan(5_000);
    expect(rss - before).toBeLessThan(200 * mebibyte);
  });
});

import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { RegistryError } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import { systemClock } from "@svc/runtime/system";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type AppliedState, type Applier, startApplier } from "./apply.ts";
import { createFetcher } from "./bundles/fetcher.ts";
import { openPredecessors } from "./bundles/predecessors.ts";
import { openBundleStore } from "./bundles/store.ts";
import { openHostLinks } from "./host-links.ts";
import { moduleAt } from "./module-link.ts";
import { gateDirName, parseEntry, predecessorsDirName } from "./names.ts";
import { openGateFiles } from "./password/gate-files.ts";
import { openGates } from "./password/gates.ts";
import { tableText } from "./table.ts";
import { createTableFeed } from "./table-feed.ts";
import { openTableFile } from "./table-file.ts";
import { createTableStore, digestOf } from "./table-store.ts";
import { aBundle, digestOfBundle, filesBundle } from "./testing/bundle.ts";
import { quiet } from "./testing/edge.ts";
import { aComplete, aDelta, aPage, aProxy, aStatic } from "./testing/routes.ts";
import { waitFor } from "./testing/wait-for.ts";
import { openTree } from "./tree.ts";
import { openTreeFiles } from "./tree-files.ts";

let dir: string;
let applier: Applier;
let close: () => Promise<void>;
let applied: AppliedState[];
let diskIsFull: boolean;
/** Archives by digest; a promise is one that is still on its way. */
const archives = new Map<string, Buffer | Promise<Buffer>>();

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-apply-"));
  archives.clear();
  diskIsFull = false;
  await open();
});
afterEach(async () => {
  await close();
  await rm(dir, { recursive: true, force: true });
});

const moduleSocket = () => join(dir, "caddy.sock.table");

/** @param clock of what is to be done later, and of dates */
async function open(clock: Clock = systemClock): Promise<void> {
  applied = [];
  const bundles = await openBundleStore(join(dir, "bundles"), quiet);
  const tree = openTree(systemClock, await openTreeFiles(join(dir, "tree")), bundles.immutablesDir, quiet);
  const pull = async ({ digest }: { digest: string }) => {
    const archive = await archives.get(digest);
    if (archive === undefined) throw new RegistryError("ARTIFACT_NOT_FOUND", digest);
    return Readable.from([archive]);
  };
  const gates = await openGates(systemClock, join(dir, "gates"), openGateFiles(join(dir, "tree", gateDirName)), quiet);
  const store = createTableStore(await openTableFile(join(dir, "table")), quiet);
  const feed = createTableFeed(systemClock, moduleAt(moduleSocket()), tree, quiet);
  applier = await startApplier({
    openEntrances: async () => {},
    clock,
    store: {
      ...store,
      async save(kept, changed) {
        if (diskIsFull) throw new Error("no space left");
        await store.save(kept, changed);
      },
    },
    tree,
    feed,
    bundles,
    predecessors: openPredecessors(
      dir,
      bundles.immutablesDir,
      openHostLinks(join(dir, "tree", predecessorsDirName)),
      quiet,
    ),
    gates,
    createFetcher: (onChange) => createFetcher({ store: bundles, pull, onChange, clock: systemClock, log: quiet }),
    onApplied: (state) => applied.push(state),
    log: quiet,
  });
  close = async () => {
    await applier[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    feed[Symbol.dispose]();
    tree[Symbol.dispose]();
    await gates[Symbol.asyncDispose]();
  };
}

const reopen = async () => {
  await close();
  await open();
};
const reported = async (matching: Partial<AppliedState>) => {
  const fits = (state: AppliedState | undefined) =>
    Object.entries(matching).every(([key, value]) => Reflect.get(state ?? {}, key) === value);
  await waitFor(() => fits(applied.at(-1)));
};
/** What Caddy would find: the target of the first entry of each host. */
async function looksUp(): Promise<Record<string, string>> {
  const hosts = (await readdir(join(dir, "tree"))).filter((host) => !host.startsWith("."));
  const found = await Promise.all(
    hosts.map(async (host) => [host, (await readdir(join(dir, "tree", host))).sort()[0] ?? ""] as const),
  );
  return Object.fromEntries(found.map(([host, entry]) => [host, parseEntry(entry)?.target ?? ""]));
}
const addBundle = async (content: string) => {
  const bundle = await filesBundle({ "index.html": content });
  archives.set(digestOfBundle(bundle), bundle);
  return digestOfBundle(bundle);
};

const a = aProxy("a.test", "10.0.0.1:80");
const b = aPage("b.test", "STOPPED");

test("a table is in force, kept on disk, and reported with its digest", async () => {
  applier.submit(aComplete(1, [a, b]));
  await reported({ generation: 1n, error: "" });
  expect(await looksUp()).toEqual({ "a.test": "p1~10.0.0.1:80", "b.test": "x~stopped" });
  expect(applied.at(-1)?.digest).toBe(digestOf(tableText(applier.routes())));
  expect(await readFile(join(dir, "table/table.jsonl"), "utf8")).toContain('"generation":"1"');
});

test("changes follow one another, and only what can be meant is accepted", async () => {
  applier.submit(aComplete(1, [a]));
  applier.submit(aDelta(1, 2, { upserts: [b] }));
  applier.submit(aDelta(2, 3, { removed: ["a.test"] }));
  await reported({ generation: 3n });
  expect(await looksUp()).toEqual({ "b.test": "x~stopped" });

  applier.submit(aDelta(9, 10, {}));
  await reported({ generation: 3n, resync: true });
  applier.submit(aComplete(2, [a]));
  await reported({ generation: 3n, resync: false });
  expect(applied.at(-1)?.error).toMatch("older");
  expect(await looksUp()).toEqual({ "b.test": "x~stopped" });
});

test("after a restart everything is as it was, without asking anybody", async () => {
  const digest = await addBundle("home");
  applier.submit(aComplete(4, [a, aStatic("s.test", digest)]));
  await waitFor(() => applied.at(-1)?.generation === 4n && applied.at(-1)?.behindHosts.length === 0);
  const before = { state: applier.state(), tree: await looksUp() };
  archives.clear();
  await reopen();
  expect({ state: applier.state(), tree: await looksUp() }).toEqual(before);
  applier.submit(aDelta(4, 5, { removed: ["s.test"] }));
  await reported({ generation: 5n, error: "" });
});

describe("a static site", () => {
  test("switches when its bundle is in place; until then it is behind, and the others go on", async () => {
    applier.submit(aComplete(1, [a, b]));
    await reported({ generation: 1n });
    const bundle = await filesBundle({ "index.html": "home" });
    const { promise, resolve } = Promise.withResolvers<Buffer>();
    const digest = digestOfBundle(bundle);
    archives.set(digest, promise);

    applier.submit(aDelta(1, 2, { upserts: [aStatic("b.test", digest)] }));
    applier.submit(aDelta(2, 3, { upserts: [aProxy("a.test", "10.0.0.2:80")] }));
    await waitFor(async () => (await looksUp())["a.test"] === "p1~10.0.0.2:80");
    expect((await looksUp())["b.test"]).toBe("x~stopped");
    await reported({ generation: 3n, error: "" });
    expect(applied.at(-1)?.behindHosts).toEqual(["b.test"]);

    resolve(bundle);
    await waitFor(() => applied.at(-1)?.behindHosts.length === 0);
    expect(applied.at(-1)).toMatchObject({ generation: 3n, error: "" });
    expect((await looksUp())["b.test"]).toBe(`s~${digest.slice(7)}`);
  });

  test("that cannot be fetched keeps what it had, is named, and comes when it can be", async () => {
    applier.submit(aComplete(1, [b]));
    await reported({ generation: 1n });
    const bundle = await filesBundle({ "index.html": "late" });
    const digest = digestOfBundle(bundle);
    applier.submit(aDelta(1, 2, { upserts: [a, aStatic("b.test", digest)] }));
    await reported({ generation: 2n, error: "b.test: its files could not be fetched (ARTIFACT_NOT_FOUND)" });
    expect(applied.at(-1)?.behindHosts).toEqual(["b.test"]);
    expect(await looksUp()).toEqual({ "a.test": "p1~10.0.0.1:80", "b.test": "x~stopped" });
    archives.set(digest, bundle);
    await reported({ generation: 2n, error: "" });
    expect((await looksUp())["b.test"]).toBe(`s~${digest.slice(7)}`);
  });

  test("whose archive must not be published is refused for good", async () => {
    const evil = await aBundle([{ name: "a", type: "symlink", linkname: "/etc/passwd" }]);
    archives.set(digestOfBundle(evil), evil);
    applier.submit(aComplete(1, [a, aStatic("b.test", digestOfBundle(evil))]));
    await reported({ generation: 1n, error: "b.test: the bundle holds an entry of type symlink" });
    expect(await looksUp()).toEqual({ "a.test": "p1~10.0.0.1:80" });
  });

  test("whose bundle nobody wants any more does not hold up anything", async () => {
    archives.set(`sha256:${"0".repeat(64)}`, new Promise<Buffer>(() => {}));
    applier.submit(aComplete(1, [a, aStatic("b.test", `sha256:${"0".repeat(64)}`)]));
    await reported({ generation: 1n });
    expect(applied.at(-1)?.behindHosts).toEqual(["b.test"]);
    applier.submit(aDelta(1, 2, { removed: ["b.test"] }));
    await reported({ generation: 2n, error: "" });
    expect(applied.at(-1)?.behindHosts).toEqual([]);
  });
});

test("hashed files of a replaced bundle stay for 24 hours, and then the link and the bundle go", async () => {
  await close();
  const clock = createManualClock();
  await open(clock);
  const asset = "assets/page-1BxK2a9_.js";
  const bundleOf = async (content: string) => {
    const bundle = await filesBundle({ "index.html": content, [asset]: content });
    archives.set(digestOfBundle(bundle), bundle);
    return digestOfBundle(bundle);
  };
  let generation = 0;
  const deploy = async (host: string, channel: string, digest: string) => {
    const route = { ...aStatic(host, digest), channel };
    generation += 1;
    applier.submit(generation === 1 ? aComplete(1, [route]) : aDelta(generation - 1, generation, { upserts: [route] }));
    await reported({ generation: BigInt(generation), error: "" });
    await waitFor(() => applied.at(-1)?.behindHosts.length === 0);
  };
  const first = await bundleOf("first");
  const isThere = () => ({
    file: existsSync(join(dir, "tree", predecessorsDirName, "shop.test", "1", asset)),
    bundle: existsSync(join(dir, "bundles", first.replace("sha256:", ""))),
  });
  const hourMs = 60 * 60_000;

  await deploy("shop.test", "production", first);
  await deploy("shop.test", "production", await bundleOf("second"));
  await clock.advance(hourMs);
  // So many that the project would not go back to the first one any more, the last three besides those it would.
  for (let n = 0; n < 12; n += 1) {
    await deploy("preview-shop.test", "preview", await bundleOf(`preview ${n}`));
    await clock.advance(60_000);
  }
  await clock.advance(22 * hourMs + 45 * 60_000);
  // What is asked for now comes after the tidying up that was due before.
  await deploy("other.test", "production", await bundleOf("other"));
  expect(isThere()).toEqual({ file: true, bundle: true });
  await clock.advance(10 * 60_000);
  await waitFor(() => !isThere().file && !isThere().bundle);
});

test("a table of which a part is missing is no base for changes after a restart", async () => {
  applier.submit(aComplete(1, [a, aProxy("b.test")]));
  await reported({ generation: 1n, error: "b.test: no upstream" });
  await reopen();
  expect(applier.state()).toMatchObject({ generation: 0n });
  applier.submit(aDelta(1, 2, {}));
  await reported({ resync: true });
  applier.submit(aComplete(1, [a, b]));
  await reported({ generation: 1n, error: "" });
});

test("a damaged file is put aside, and what is served stays until there is a table", async () => {
  applier.submit(aComplete(1, [a]));
  await reported({ generation: 1n });
  await close();
  const path = join(dir, "table/table.jsonl");
  await writeFile(path, (await readFile(path, "utf8")).replace("10.0.0.1", "10.6.6.6"));
  await open();
  expect(applier.state()).toMatchObject({ generation: 0n });
  expect(await looksUp()).toEqual({ "a.test": "p1~10.0.0.1:80" });
  expect(await readdir(join(dir, "table"))).toEqual(["table.jsonl.damaged"]);
  applier.submit(aComplete(7, [b]));
  await reported({ generation: 7n });
  expect(await looksUp()).toEqual({ "b.test": "x~stopped" });
});

test("what cannot be kept is not reported as applied", async () => {
  applier.submit(aComplete(1, [a]));
  await reported({ generation: 1n });
  diskIsFull = true;
  applier.submit(aDelta(1, 2, { upserts: [b] }));
  await reported({ generation: 1n, error: "the edge could not keep the table" });
  diskIsFull = false;
  applier.poke();
  await reported({ generation: 2n, error: "" });
});

test("what Caddy's module does not take is not reported as applied, and is told again", async () => {
  applier.submit(aComplete(1, [a]));
  await reported({ generation: 1n });
  let refuses = true;
  const heard: unknown[] = [];
  const sockets = new Set<Socket>();
  await using module = createServer((socket) => {
    sockets.add(socket);
    createInterface({ input: socket.on("error", () => {}) }).on("line", (line) => {
      if (refuses) return void socket.destroy();
      const { generation, targets } = JSON.parse(line);
      heard.push(targets);
      socket.write(`${JSON.stringify({ generation })}\n`);
    });
  });
  using _ended = { [Symbol.dispose]: () => sockets.forEach((socket) => void socket.destroy()) };
  await once(module.listen(moduleSocket()), "listening");
  applier.submit(aDelta(1, 2, { removed: ["a.test"], upserts: [b] }));
  await reported({ generation: 1n, error: "the edge could not keep the table" });
  refuses = false;
  applier.poke();
  await reported({ generation: 2n, error: "" });
  expect(heard).toEqual([await looksUp()]);
});

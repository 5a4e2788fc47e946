import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { systemClock } from "@svc/runtime/system";
import { afterEach, beforeEach, expect, test } from "vitest";
import { moduleAt } from "./module-link.ts";
import { createTableFeed, type TableFeed } from "./table-feed.ts";
import { quiet } from "./testing/edge.ts";

let dir: string;
let feed: TableFeed;
/** Target name by host. */
const targets = new Map<string, string>();
const path = () => join(dir, "table.sock");

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-feed-"));
  targets.clear();
  const tree = { hosts: () => targets.keys(), target: (host: string) => targets.get(host) ?? null };
  feed = createTableFeed(systemClock, moduleAt(path()), tree, quiet);
});
afterEach(async () => {
  feed[Symbol.dispose]();
  await rm(dir, { recursive: true, force: true });
});

/** The other end, which answers each line as `answer` does: undefined hangs up. */
async function listen(answer: (said: { generation: number }) => object | undefined) {
  const heard: unknown[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    createInterface({ input: socket }).on("line", (line) => {
      const said = JSON.parse(line);
      heard.push(said);
      const answered = answer(said);
      if (answered === undefined) socket.destroy();
      else socket.write(`${JSON.stringify(answered)}\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(path(), resolve));
  return {
    heard,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
const agrees = ({ generation }: { generation: number }) => ({ generation });

test("nobody who listens need not be told", async () => {
  targets.set("a.test", "p1~10.0.0.1:80");
  await feed.tell(["a.test"]);
});

test("the first time all is told, then what changed", async () => {
  await using module = await listen(agrees);
  targets.set("a.test", "p1~10.0.0.1:80").set("b.test", "x~stopped");
  await feed.tell(["a.test"]);
  targets.delete("b.test");
  await feed.tell(["b.test"]);
  expect(module.heard).toEqual([
    { generation: 1, complete: true, targets: { "a.test": "p1~10.0.0.1:80", "b.test": "x~stopped" } },
    { generation: 2, complete: false, targets: { "b.test": null } },
  ]);
});

test("another Caddy is told all", async () => {
  targets.set("a.test", "p1~10.0.0.1:80");
  {
    await using _module = await listen(agrees);
    await feed.tell(["a.test"]);
  }
  await using module = await listen(agrees);
  await feed.tell([]);
  expect(module.heard).toEqual([{ generation: 1, complete: true, targets: { "a.test": "p1~10.0.0.1:80" } }]);
});

const otherAnswers: [does: string, answer: () => object | undefined][] = [
  ["refuses", () => ({ generation: 0, refused: "older" })],
  ["hangs up", () => undefined],
  ["says something else", () => ({ hello: 1 })],
];
test.each(otherAnswers)("one that %s has not taken it, and is told all again", async (_, answer) => {
  let calls = 0;
  await using module = await listen((said) => (calls++ === 0 ? answer() : agrees(said)));
  await expect(feed.tell([])).rejects.toThrow(/caddy's module/);
  await feed.tell([]);
  expect(module.heard).toHaveLength(2);
});

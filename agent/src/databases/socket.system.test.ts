import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connectServer } from "./socket.ts";

let dir = "";
const server = createServer((socket) => socket.end("hello"));
const soon = () => AbortSignal.timeout(60_000);

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-socket-"));
  await new Promise<void>((resolve) => server.listen(join(dir, "server"), resolve));
});
afterAll(async () => {
  server.close();
  await rm(dir, { recursive: true, force: true });
});

test("a server is reached by its socket", async () => {
  expect((await buffer(await connectServer(join(dir, "server"), soon()))).toString()).toBe("hello");
});

test.each([
  { when: "is a link to another socket", lay: (path: string) => symlink("server", path) },
  { when: "is a file", lay: (path: string) => writeFile(path, "") },
  { when: "is not there", lay: async () => {} },
])("nobody is connected to what $when", async ({ when, lay }) => {
  const path = join(dir, when.replaceAll(" ", "-"));
  await lay(path);
  await expect(connectServer(path, soon())).rejects.toThrow();
});

test("nor after an abort", async () => {
  await expect(connectServer(join(dir, "server"), AbortSignal.abort(new Error("over")))).rejects.toThrow("over");
});

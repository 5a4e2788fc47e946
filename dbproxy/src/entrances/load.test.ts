import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeDurably } from "@svc/runtime/durable-file";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createEntrancesReader, entrancesFile } from "./load.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-entrances-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("the newest that was written is in force, and neither an older one nor what cannot be read", async () => {
  const read = createEntrancesReader({ dir, log: createLog("silent") });
  const write = (generation: string, port: number) => {
    const entrances = [{ port, to: { host: "127.0.0.1", port: 80 } }];
    return writeDurably(entrancesFile(dir), JSON.stringify({ generation, address: "127.0.0.1", entrances }));
  };
  const ports = async () => (await read())?.entrances.map(({ port }) => port);
  expect(await ports()).toBeUndefined();
  await write("7", 20_007);
  expect(await ports()).toEqual([20_007]);
  await write("6", 20_006);
  expect(await ports()).toEqual([20_007]);
  await writeDurably(entrancesFile(dir), "{");
  expect(await ports()).toEqual([20_007]);
  await write("10", 20_010);
  expect(await ports()).toEqual([20_010]);
});

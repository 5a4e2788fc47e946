import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EntrancesState, entranceFiles } from "@svc/proto/entrances";
import { Observed } from "@svc/proto/node";
import { systemClock } from "@svc/runtime/system";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openProxyDir, type ProxyDir } from "../databases/proxy-dir.ts";
import { freshMemory, type PlacementRecord } from "../journal/records.ts";
import { waitFor } from "../testing/wait.ts";
import { createEntranceKeeper, type EntranceKeeper } from "./keeper.ts";

const address = "10.0.0.7";
let path: string;
let dir: ProxyDir;
let stop: AbortController;
let records: PlacementRecord[];
const settings = new Map<string, string>();
const journal = {
  findSetting: (key: string) => settings.get(key) ?? null,
  saveSetting: (key: string, value: string) => void settings.set(key, value),
};

beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), "svc-entrances-"));
  dir = openProxyDir(path);
  stop = new AbortController();
  records = [];
  settings.clear();
});
afterEach(async () => {
  stop.abort();
  await rm(path, { recursive: true, force: true });
});

function keeper(at = address): EntranceKeeper {
  const log = pino({ level: "silent" });
  const made = createEntranceKeeper({
    ...{ clock: systemClock, address: at, isOn: true, journal, dir, log },
    placements: () => records,
  });
  void made.run(stop.signal);
  return made;
}
const record = (hostPort: number): PlacementRecord =>
  ({
    status: { observed: Observed.RUNNING },
    memory: { ...freshMemory, hostPort, behindEntrance: true },
  }) as PlacementRecord;
const proxySays = (state: EntrancesState) => writeFile(join(path, entranceFiles.state), JSON.stringify(state));
const ports = async () => (await dir.readEntrances())?.entrances.map(({ port }) => port);
const until = (wanted: number[]) =>
  waitFor(`entrances ${wanted}`, async () => String(await ports()) === String(wanted));

test("an entrance is open once the proxy listens there by the file that names it", async () => {
  await proxySays({ generation: "4", missing: [] });
  records = [record(20_001)];
  const made = keeper();
  const opening = made.isOpen(20_001, stop.signal);
  await until([20_001]);
  const { generation = "" } = (await dir.readEntrances()) ?? {};
  // What the proxy has in force counts also where the file was lost.
  expect(BigInt(generation)).toBeGreaterThan(4n);
  await proxySays({ generation, missing: [20_001] });
  await proxySays({ generation, missing: [] });
  expect(await opening).toBe(true);
  stop.abort();
  expect(await made.isOpen(20_002, stop.signal)).toBe(false);
});

test("entrances of containers that nobody knows yet stay until every container was looked at", async () => {
  const entrances = [{ port: 20_009, to: { host: "127.0.0.1", port: 20_009 } }];
  await dir.writeEntrances({ generation: "1", address, entrances });
  records = [record(20_001)];
  const made = keeper();
  await until([20_001, 20_009]);
  made.surveyed();
  await until([20_001]);
  records = [];
  made.wake();
  await until([]);
});

test("it is wanted when control and the proxy said so, also by a later life of the agent", async () => {
  expect(await keeper().isWanted()).toBe(false);
  keeper().hear(true);
  expect(await keeper().isWanted()).toBe(false);
  await proxySays({ generation: "0", missing: [] });
  expect(await keeper().isWanted()).toBe(true);
  expect(await keeper("127.0.1.1").isWanted()).toBe(false);
  keeper().hear(false);
  expect(await keeper().isWanted()).toBe(false);
});

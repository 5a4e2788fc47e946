import { setTimeout as delay } from "node:timers/promises";
import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import {
  appOf,
  covers,
  type DatabaseApp,
  deployDatabaseApp,
  keeperOf,
  serverOf,
  serverSince,
  serversOf,
  setApart,
  signalServer,
} from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import { recordFault } from "./support/results.ts";
import { becomes } from "./support/sites.ts";
import { healMs } from "./support/times.ts";
import { startWriter, type Writer } from "./support/writer.ts";

const kills = 100;
/** So much is written before something happens to a server, and again afterwards. */
const rowsBetween = 100;
const hungMs = 15_000;
const downMs = 120_000;
const rebootMs = 180_000;
/** A server that were started without a grant would be there by then. */
const watchedMs = 20_000;

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ machines: 2, databases: true });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

/** What happens to a database while its app writes into it from another node. */
interface Fault {
  fault: string;
  /** The server's process is the same one afterwards. */
  keepsServer: boolean;
  happen(app: DatabaseApp, writer: Writer): Promise<void>;
}

const faults: Fault[] = [
  {
    fault: `server stopped for ${hungMs / 1000} s (SIGSTOP)`,
    keepsServer: false,
    async happen(app) {
      const server = await serverOf(fleet, app);
      await signalServer(server, "SIGSTOP");
      await delay(hungMs);
      await signalServer(server, "SIGCONT");
    },
  },
  ...(["server", "app"] as const).flatMap((side): Fault[] => {
    const nodeOf = async (app: DatabaseApp) => (await (side === "server" ? serverOf : appOf)(fleet, app)).node;
    return [
      {
        fault: `database proxy of the ${side}'s node stopped for ${hungMs / 1000} s (SIGSTOP)`,
        keepsServer: true,
        async happen(app) {
          const { proxy } = await nodeOf(app);
          proxy?.kill("SIGSTOP");
          await delay(hungMs);
          proxy?.kill("SIGCONT");
        },
      },
      {
        fault: `database proxy of the ${side}'s node killed and started again`,
        keepsServer: true,
        async happen(app) {
          const node = await nodeOf(app);
          node.proxy?.kill("SIGKILL");
          await node.proxy?.ended;
          await node.startProxy();
        },
      },
    ];
  }),
  {
    fault: `agent of the server's node stopped for ${hungMs / 1000} s (SIGSTOP)`,
    keepsServer: true,
    async happen(app) {
      const { node } = await serverOf(fleet, app);
      node.agent?.kill("SIGSTOP");
      await delay(hungMs);
      node.agent?.kill("SIGCONT");
      await becomes(fleet, node, ["ready"], healMs);
    },
  },
  {
    fault: "agent of the server's node killed and started again",
    keepsServer: true,
    async happen(app) {
      const { node } = await serverOf(fleet, app);
      node.agent?.kill("SIGKILL");
      await node.agent?.ended;
      await node.startAgent();
      await becomes(fleet, node, ["ready"], healMs);
    },
  },
  {
    fault: `the app's node does not reach the server's for ${hungMs / 1000} s`,
    keepsServer: true,
    async happen(app) {
      const [{ node: at }, { node: from }] = [await serverOf(fleet, app), await appOf(fleet, app)];
      await from.machine.loseTo(at.machine.address);
      await delay(hungMs);
      await from.machine.heal();
    },
  },
  {
    fault: `the keeper of its copy does not reach it for ${hungMs / 1000} s, and covers everything again`,
    keepsServer: true,
    async happen(app) {
      const [{ node: at }, { node: from }] = [await serverOf(fleet, app), await keeperOf(fleet, app)];
      expect(from).not.toBe(at);
      await covers(fleet, app, Date.now());
      await from.machine.loseTo(at.machine.address);
      await delay(hungMs);
      await from.machine.heal();
      await covers(fleet, app, Date.now());
    },
  },
  {
    fault: `server killed ${kills} times`,
    keepsServer: false,
    async happen(app, writer) {
      for (let killed = 0; killed < kills; killed += 1) {
        await writer.writes(rowsBetween);
        await signalServer(await serverOf(fleet, app), "SIGKILL");
        await writer.goesOn();
      }
    },
  },
  ...(["control", "etcd", "postgres"] as const).map((name): Fault => {
    return {
      fault: `${name} down for ${downMs / 1000} s`,
      keepsServer: true,
      async happen() {
        await fleet.program(name).stop("SIGKILL");
        await delay(downMs);
        await fleet.program(name).start();
        for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
      },
    };
  }),
];

describe.each(databaseEngines)("a database on %s with its app on another node", (engine) => {
  let app: DatabaseApp;
  beforeAll(async () => {
    app = await deployDatabaseApp(fleet, engine);
    await setApart(fleet, app);
  });
  afterAll(() => app?.[Symbol.asyncDispose]());

  // Wide: a machine that has other things to do starts a server a hundred times.
  test.each(faults)(
    "$fault: no acknowledged row is lost, and it is written again",
    { timeout: 3_600_000 },
    async (one) => {
      const before = await serverSince(fleet, app);
      await using writer = await startWriter(fleet, app);
      await writer.writes(rowsBetween);
      await one.happen(app, writer);
      const backMs = await writer.goesOn();
      await writer.writes(rowsBetween);
      const verdict = await writer.verdict();
      const problems = Object.values(await writer.problems()).reduce((sum, count) => sum + count, 0);
      await recordFault({
        fault: `${one.fault}, database on ${engine}`,
        observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost, ${problems} refused or broken off`,
        timesMs: { "written again after its end": backMs, "longest pause": verdict.longestPauseMs },
        visits: {},
      });
      expect(verdict).toMatchObject(innocent);
      expect(await serversOf(fleet, app)).toHaveLength(1);
      if (one.keepsServer) expect(await serverSince(fleet, app)).toBe(before);
    },
  );

  test("its machine is off and on while control is down: it waits for control, and has every row", async () => {
    const { node } = await serverOf(fleet, app);
    await using writer = await startWriter(fleet, app);
    await node.machine.cutPower();
    await fleet.program("control").stop("SIGKILL");
    await node.bootEngine();
    await node.startProxy();
    await node.launchAgent();
    const bootedAt = performance.now();
    await delay(watchedMs);
    expect((await serversOf(fleet, app)).filter(({ state }) => state === "running")).toEqual([]);
    await fleet.program("control").start();
    const controlAt = performance.now();
    await waitFor("the server to run", rebootMs, async () => (await serverOf(fleet, app)).node === node);
    await writer.goesOn(rebootMs);
    const servedAt = performance.now();
    const verdict = await writer.verdict();
    await recordFault({
      fault: `machine off and on with control down, database on ${engine}`,
      observed: `nothing starts until control is back; ${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost`,
      timesMs: {
        "without control": controlAt - bootedAt,
        "written again after control's return": servedAt - controlAt,
      },
      visits: {},
    });
    expect(verdict).toMatchObject(innocent);
    expect(await serversOf(fleet, app)).toHaveLength(1);
  });
});

import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asRoot } from "../support/host.ts";
import {
  type DatabaseApp,
  deployDatabaseApp,
  serverOf,
  serverSince,
  serversOf,
  setApart,
} from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import type { Node } from "./support/node.ts";
import { recordFault } from "./support/results.ts";
import { becomes } from "./support/sites.ts";
import { startWriter } from "./support/writer.ts";

const noticedMs = 90_000;
/** A server that the copy took for its own to start would be there by then. */
const watchedMs = 30_000;
const rows = 200;

const volumesOf = async ({ machine }: Node): Promise<string[]> =>
  (await machine.docker.listVolumes()).Volumes.map(({ Name }) => Name).sort();

describe.each(databaseEngines)("a database on %s whose machine was cloned, its data as well", (engine) => {
  let fleet: Fleet;
  let app: DatabaseApp;
  beforeAll(async () => {
    fleet = await startFleet({ machines: 3, on: 2, databases: true });
    app = await deployDatabaseApp(fleet, engine);
    await setApart(fleet, app);
  });
  afterAll(async () => {
    await app?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
  });

  test("goes on on the one, and does not start on the other", { timeout: 900_000 }, async () => {
    const { node: original } = await serverOf(fleet, app);
    const copy = fleet.node(3);
    const before = await serverSince(fleet, app);
    await using writer = await startWriter(fleet, app);
    await writer.writes(rows);

    // As from a disk image, which has what the server wrote until then.
    await original.agent?.stop(10_000);
    const dir = join(copy.machine.disk, "clone");
    await cp(join(original.machine.disk, "agent"), dir, { recursive: true });
    await mkdir(copy.machine.engineDir, { recursive: true });
    const image = join(copy.machine.disk, "volumes.tar");
    // Ends with an error when files change meanwhile, as they do in an image of a disk in use.
    await asRoot("tar", "--create", "--file", image, "--directory", original.machine.engineDir, "volumes").catch(
      () => {},
    );
    await asRoot("tar", "--extract", "--file", image, "--directory", copy.machine.engineDir);
    await original.startAgent();
    await copy.bootEngine();
    expect(await volumesOf(copy)).toEqual(await volumesOf(original));
    await copy.startProxy();
    await copy.launchAgent({
      ...{ SVC_AGENT_DIR: dir, SVC_AGENT_NAME: original.name },
      SVC_AGENT_ADDRESS: original.machine.address,
    });
    await becomes(fleet, original, ["quarantined"], noticedMs);
    await delay(watchedMs);
    await writer.writes(rows);

    const running = (await serversOf(fleet, app)).filter(({ state }) => state === "running");
    expect(running.map(({ node }) => node.name)).toEqual([original.name]);
    expect(await serverSince(fleet, app)).toBe(before);
    const verdict = await writer.verdict();
    const problems = await writer.problems();
    await recordFault({
      fault: `machine of a database on ${engine} cloned with its agent's directory and its data`,
      observed: `the node is quarantined, the server goes on, none starts on the other machine; ${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost`,
      timesMs: { "longest pause": verdict.longestPauseMs },
      visits: {},
    });
    expect(problems).toEqual({});
    expect(verdict).toMatchObject(innocent);
  });
});

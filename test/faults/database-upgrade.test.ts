import { type DatabaseEngine, databaseEngines, defaultDatabaseImages } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { waitFor } from "../support/wait-for.ts";
import { type DatabaseApp, deployDatabaseApp, serversOf, setApart } from "./support/databases.ts";
import { type Fleet, startFleet } from "./support/fleet.ts";
import { innocent } from "./support/judge.ts";
import type { Node } from "./support/node.ts";
import { recordFault } from "./support/results.ts";
import { becomes } from "./support/sites.ts";
import { healMs } from "./support/times.ts";
import { startWriter } from "./support/writer.ts";

const upgradedMs = 300_000;
const rows = 200;
const names = ["ledger", "archive"] as const;

let fleet: Fleet;
beforeAll(async () => {
  fleet = await startFleet({ machines: 2, databases: true });
});
afterAll(() => fleet?.[Symbol.asyncDispose]());

const setting = { postgres: "SVC_DB_IMAGE_POSTGRES", mariadb: "SVC_DB_IMAGE_MARIADB" } as const;
const nextImage = (engine: DatabaseEngine) => `${defaultDatabaseImages[engine]}-next`;

/** Makes an image of its own bytes that has the same server, as a minor version does that only mends. */
async function makeNextImage({ machine: { docker } }: Node, engine: DatabaseEngine): Promise<void> {
  const container = await docker.createContainer({ Image: defaultDatabaseImages[engine] });
  const [repo, tag] = nextImage(engine).split(":");
  await container.commit({ repo, tag, changes: "LABEL svc.test=next" });
  await container.remove();
}

describe.each(databaseEngines)("two databases on %s under writes, whose image the installation changes", (engine) => {
  const apps: DatabaseApp[] = [];
  beforeAll(async () => {
    for (const node of fleet.nodes) await makeNextImage(node, engine);
    for (const name of names) {
      const app = await deployDatabaseApp(fleet, engine, name);
      apps.push(app);
      await setApart(fleet, app);
    }
  });
  afterAll(async () => {
    for (const app of apps) await app[Symbol.asyncDispose]();
  });

  /** What each database's servers run in, and whether they do. */
  const look = () =>
    Promise.all(
      apps.map(async (app) =>
        Promise.all(
          (await serversOf(fleet, app)).map(async ({ node, id, state }) => {
            const { Config } = await node.machine.docker.getContainer(id).inspect();
            return { image: Config.Image, isRunning: state === "running" };
          }),
        ),
      ),
    );

  test.each([
    { to: "another one", image: nextImage(engine) },
    { to: "the one before", image: defaultDatabaseImages[engine] },
  ])("are started in $to, one after the other, and lose no acknowledged row", { timeout: 900_000 }, async (to) => {
    await using held = new AsyncDisposableStack();
    const writers = await Promise.all(apps.map(async (app) => held.use(await startWriter(fleet, app))));
    for (const writer of writers) await writer.writes(rows);
    await fleet.configureControl({ [setting[engine]]: to.image });
    let mostDown = 0;
    let mostServers = 0;
    await waitFor(`all servers to run in ${to.image}`, upgradedMs, async () => {
      // A container may go between the list and the look at it.
      const found = await look().catch(() => null);
      if (found === null) return false;
      mostServers = Math.max(mostServers, ...found.map((servers) => servers.filter((one) => one.isRunning).length));
      mostDown = Math.max(mostDown, found.filter((servers) => !servers.some((one) => one.isRunning)).length);
      return found.every((servers) => servers.some(({ image, isRunning }) => isRunning && image === to.image));
    });
    for (const writer of writers) await writer.writes(rows);
    for (const node of fleet.nodes) await becomes(fleet, node, ["ready"], healMs);
    for (const [index, writer] of writers.entries()) {
      const verdict = await writer.verdict();
      await recordFault({
        fault: `image of servers changed to ${to.to} under writes, database ${index + 1} of 2 on ${engine}`,
        observed: `${verdict.acknowledged} rows acknowledged, ${verdict.lost.length} lost; ${mostDown} down at once`,
        timesMs: { "longest pause": verdict.longestPauseMs },
        visits: {},
      });
      expect(verdict).toMatchObject(innocent);
    }
    expect(mostDown).toBeLessThan(2);
    expect(mostServers).toBe(1);
    for (const app of apps) expect(await serversOf(fleet, app)).toHaveLength(1);
  });
});

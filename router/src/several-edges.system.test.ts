import { create } from "@bufbuild/protobuf";
import { DrainSchema } from "@svc/proto/edge";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type HealthListener, serveHealth } from "./rotation/health.ts";
import { quiet, startTestEdge, type TestEdge } from "./testing/edge.ts";
import { type Answer, ask } from "./testing/http.ts";
import { aProxy } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";
import { waitFor } from "./testing/wait-for.ts";

const host = "shop.svc.localhost";
interface Served {
  edge: TestEdge;
  health: HealthListener;
}
let edges: Served[];
let apps: Upstream[];

beforeAll(async () => {
  apps = [await startUpstream("blue"), await startUpstream("green")];
  edges = await Promise.all(
    ["127.0.0.2", "127.0.0.3"].map(async (address) => {
      const env = { SVC_EDGE_TLS: "off", SVC_EDGE_DRAIN_SECONDS: "1" };
      const edge = await startTestEdge({ address, env });
      const health = await serveHealth({ host: address, port: 0 }, () => edge.edge().standing.unready(), quiet);
      return { edge, health };
    }),
  );
  await deploy("blue");
  for (const each of edges) say(each, { generation: 1n, leave: false, inRotation: true });
});
afterAll(async () => {
  for (const { edge, health } of edges) {
    await health[Symbol.asyncDispose]();
    await edge[Symbol.asyncDispose]();
  }
  for (const app of apps) await app[Symbol.asyncDispose]();
});

const addressOf = ({ edge }: Served): string => edge.http.slice(0, edge.http.lastIndexOf(":"));
const isWell = async (each: Served): Promise<boolean> =>
  (await ask(`${addressOf(each)}:${each.health.port}`, "health", "/_svc/edge")).status === 200;

function say({ edge }: Served, drain: { generation: bigint; leave: boolean; inRotation: boolean }): void {
  edge.edge().standing.open("e1", () => {});
  edge.edge().standing.learn(create(DrainSchema, drain));
}

/** As a deployment does, for every edge in rotation. */
async function deploy(name: "blue" | "green", to: readonly Served[] = edges): Promise<void> {
  const address = apps[name === "blue" ? 0 : 1]?.address ?? "";
  await Promise.all(to.map(({ edge }) => edge.serve({ upserts: [aProxy(host, address)] })));
}

/** As a visitor with both addresses in DNS does: the next one, where one refuses or is silent. */
async function visit(): Promise<Answer> {
  let problem: unknown;
  for (const { edge } of edges) {
    try {
      return await ask(edge.http, host);
    } catch (cause) {
      problem = cause;
    }
  }
  throw problem;
}

/** Visits while `act` runs, one after the other; what was answered. */
async function under(act: () => Promise<void>): Promise<Answer[]> {
  const answers: Answer[] = [];
  let isOver = false;
  const visits = (async () => {
    while (!isOver) answers.push(await visit());
  })();
  try {
    await act();
  } finally {
    isOver = true;
  }
  await visits;
  return answers;
}

test("a site stays reachable, and changes, while one of two edges is drained, taken back, and killed", async () => {
  const [first, second] = edges;
  if (first === undefined || second === undefined) throw new Error("there are two edges");
  const answers = await under(async () => {
    say(first, { generation: 2n, leave: true, inRotation: false });
    expect([await isWell(first), await isWell(second)]).toEqual([false, true]);
    await deploy("green", [second]);
    // Out of rotation, it goes on to follow.
    await deploy("green", [first]);
    await waitFor(() => first.edge.edge().rotation.phase() === "drained");
    say(first, { generation: 3n, leave: false, inRotation: true });
    await waitFor(() => isWell(first));

    await first.edge.caddy.kill();
    await waitFor(async () => !(await isWell(first)));
    await deploy("blue", [second]);
    expect((await visit()).body).toBe("blue");
  });
  expect(answers.length).toBeGreaterThan(10);
  expect([...new Set(answers.map(({ status }) => status))]).toEqual([200]);
  expect(await isWell(second)).toBe(true);
});

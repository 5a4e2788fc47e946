import { afterAll, beforeAll, expect, test } from "vitest";
import { createMetrics } from "../../metrics/metrics.ts";
import { keys } from "../cluster/keys.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, anAgent, aRouter, aWorld, type DaemonFiles, until, type World } from "../daemons/testing.ts";

const metrics = createMetrics();
let world: World;
let link: Link;
let files: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink({ metrics });
  files = await aDaemon(world, link, "node");
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const told = () => world.read<number>(keys.clock(files.id));
const at = (offsetMs: number) => BigInt(Date.now() + offsetMs);

test("a clock that is off stands in etcd as long as it is, and a right one leaves no trace", async () => {
  await using agent = await anAgent(link, files);
  const renew = async (wallMs: bigint) => {
    agent.send({ case: "renew", value: { n: 1n, wallMs } });
    await agent.next("renewAck");
  };
  await renew(0n);
  await renew(at(0));
  expect(await told()).toBeNull();
  await renew(at(40_000));
  await until("the clock is told", async () => {
    const offsetMs = await told();
    return offsetMs !== null && Math.abs(offsetMs - 40_000) < 5_000;
  });
});

test("the next session begins without what was told of the last", async () => {
  expect(await told()).not.toBeNull();
  await using _agent = await anAgent(link, files);
  expect(await told()).toBeNull();
});

test("streams, renewals and their ends are counted by role", async () => {
  const edge = await aDaemon(world, link, "edge");
  const seriesOf = async (series: string) =>
    (await metrics.read())
      .split("\n")
      .find((line) => line.startsWith(`${series} `))
      ?.split(" ")
      .at(-1);
  {
    await using router = await aRouter(link, edge);
    router.send({ case: "renew", value: { n: 1n, wallMs: at(-90_000) } });
    await router.next("renewAck");
    expect(await seriesOf('svc_control_link_sessions{role="edge"}')).toBe("1");
    expect(await seriesOf('svc_control_link_renewals_total{role="edge"}')).toBe("1");
    await until(
      "the router's clock is told",
      async () => ((await world.read<number>(keys.clock(edge.id))) ?? 0) < -80_000,
    );
    await using _newer = await aRouter(link, edge);
    await router.ended;
  }
  await until(
    "the first stream counts as superseded",
    async () => (await seriesOf('svc_control_link_sessions_ended_total{role="edge",why="superseded"}')) === "1",
  );
  await until("no router is left", async () => (await seriesOf('svc_control_link_sessions{role="edge"}')) === "0");
});

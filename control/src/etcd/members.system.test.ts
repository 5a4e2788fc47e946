import { afterAll, expect, test } from "vitest";
import { askMembers } from "./members.ts";
import { type EtcdServer, startCluster, until } from "./testing.ts";

const open: EtcdServer[] = [];
afterAll(() => Promise.all(open.map((server) => server[Symbol.asyncDispose]())));

test("each member is asked by itself: one that is dead, and one that lost the others, are told apart", async () => {
  const servers = await startCluster(3);
  open.push(...servers);
  const endpoints = servers.map(({ endpoint }) => endpoint);
  const well = await askMembers({ endpoints }, 3_000);
  for (const [index, report] of well.entries()) {
    expect(report).toMatchObject({ endpoint: endpoints[index], hasLeader: true, complaints: [], members: 3 });
  }

  const [first, second] = servers;
  await first?.kill();
  const [dead, alive] = await askMembers({ endpoints }, 2_000);
  expect(dead).toEqual({ endpoint: endpoints[0], error: expect.stringMatching(/./) });
  expect(alive).toMatchObject({ hasLeader: true, version: expect.stringMatching(/^3\./) });

  await second?.kill();
  const alone = await until("the last member knows that it is alone", async () => {
    const report = (await askMembers({ endpoints }, 1_000))[2];
    return report !== undefined && "hasLeader" in report && !report.hasLeader ? report : null;
  });
  expect(alone.members).toBe(3);
});

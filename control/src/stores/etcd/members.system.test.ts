import { systemClock } from "@svc/runtime/system";
import { afterAll, expect, test } from "vitest";
import { askMembers, type MemberReport } from "./members.ts";
import { type EtcdServer, startCluster, until } from "./testing.ts";

const open: EtcdServer[] = [];
afterAll(() => Promise.all(open.map((server) => server[Symbol.asyncDispose]())));

test("each member is asked by itself: one that is dead, and one that lost the others, are told apart", async () => {
  const servers = await startCluster(3);
  open.push(...servers);
  const endpoints = servers.map(({ endpoint }) => endpoint);
  // Members that hear too little from their leader look for another one, and say so meanwhile.
  const isLed = (report: MemberReport | undefined) =>
    report !== undefined && "hasLeader" in report && report.hasLeader && report.complaints.length === 0;
  const well = await until("all have a leader", async () => {
    const reports = await askMembers(systemClock, { endpoints }, 3_000);
    return reports.every(isLed) && reports;
  });
  for (const [index, report] of well.entries())
    expect(report).toMatchObject({ endpoint: endpoints[index], members: 3 });

  const [first, second] = servers;
  await first?.kill();
  const [dead, alive] = await until("the others have a leader", async () => {
    const reports = await askMembers(systemClock, { endpoints }, 2_000);
    return reports.slice(1).every(isLed) && reports;
  });
  expect(dead).toEqual({ endpoint: endpoints[0], error: expect.stringMatching(/./) });
  expect(alive).toMatchObject({ hasLeader: true, version: expect.stringMatching(/^3\./) });

  await second?.kill();
  const alone = await until("the last member knows that it is alone", async () => {
    const report = (await askMembers(systemClock, { endpoints }, 1_000))[2];
    return report !== undefined && "hasLeader" in report && !report.hasLeader ? report : null;
  });
  expect(alone.members).toBe(3);
});

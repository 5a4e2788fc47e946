import { expect, test } from "vitest";
import { ok, projectId, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const nothing = {
  ...{ span: "7d", channel: "production", sampled: false },
  ...{ paths: [], referrers: [], countries: [], devices: [], browsers: [], operatingSystems: [] },
  ...{ statuses: { s2xx: 0, s3xx: 0, s4xx: 0, s5xx: 0 }, visitors: [] },
};
const dayOf = (at: number) => new Date(Date.UTC(2030, 0, 1) + at * 86_400_000).toISOString().slice(0, 10);
const visited = {
  ...nothing,
  paths: Array.from({ length: 25 }, (_, at) => ({ value: `/page/${at}`, count: 100 - at })),
  devices: [
    { value: "desktop", count: 90 },
    { value: "bot", count: 10 },
  ],
  statuses: { s2xx: 100, s3xx: 0, s4xx: 7, s5xx: 1 },
  visitors: [0, 1, 2].map((at) => ({ day: dayOf(at), count: 10 * (at + 1) })),
};

async function run(args: string[], analytics: object = visited) {
  await using api = await startApi({ [`GET /api/v1/projects/${projectId}/analytics`]: ok({ analytics }) });
  await using directory = await aDirectory({ ".svc/state.json": state });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  return { ...(await svc(args, { cwd: directory.path, env })), paths: api.seen.map(({ path }) => path) };
}

test("lists, statuses and a bar for each day are shown, of the span and channel that were asked for", async () => {
  const ended = await run(["analytics", "--span", "24h", "--channel", "preview"]);
  expect(ended.status, ended.stderr).toBe(0);
  expect(ended.paths.map((path) => path.split("?")[1])).toEqual(["span=24h&channel=preview"]);
  expect(ended.stdout).toContain("100 of 2xx, 0 of 3xx, 7 of 4xx, 1 of 5xx");
  expect(ended.stdout).toMatch(/^2030-01-03 +30 +█{24}$/m);
  expect(ended.stdout).toMatch(/^desktop +90$/m);
  // The ten most frequent; all are in the JSON.
  expect(ended.stdout).toContain("/page/9 ");
  expect(ended.stdout).not.toContain("/page/10 ");
  expect(ended.stdout).not.toContain("REFERRER");
});

test("of years there is one line, and the newest days", async () => {
  const visitors = Array.from({ length: 730 }, (_, at) => ({ day: dayOf(at), count: at + 1 }));
  const { stdout } = await run(["analytics", "--span", "all"], { ...visited, span: "all", visitors });
  expect(stdout).toContain(`Visitors by day, from ${dayOf(0)} to ${dayOf(729)}`);
  expect(stdout).toContain("and 716 days before, with --json");
  expect(stdout.split("\n").filter((line) => line.startsWith("203"))).toHaveLength(14);
  expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
});

test("the envelope has all that the platform said, and no visits are told as that", async () => {
  const ended = await run(["analytics", "--json"]);
  expect(envelopeOf(ended)).toMatchObject({ ok: true, operation: "analytics", analytics: visited });
  expect((await run(["analytics"], nothing)).stdout).toContain("No visits on production in this span (7d)");
});

test("a span that there is not is refused with those that there are", async () => {
  const ended = await run(["analytics", "--span", "2h", "--json"]);
  expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
  expect([ended.status === 0, ended.paths]).toEqual([false, []]);
});

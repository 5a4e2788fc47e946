import { expect, test } from "vitest";
import { ok, projectId, startApi } from "../testing/api.ts";
import { aDirectory, envelopeOf, svc } from "../testing/svc.ts";

const hourMs = 3_600_000;
const state = JSON.stringify({ project: { id: projectId, slug: "shop" } });
const hourAgo = (hours: number) => new Date(Math.floor(Date.now() / hourMs - hours) * hourMs).toISOString();
const statuses = { s2xx: 40, s3xx: 0, s4xx: 3, s5xx: 1 };
const traffic = {
  ...{ bucketSize: "hour", totalRequests: 88, totalBytesIn: 10, totalBytesOut: 4096, totalStatuses: statuses },
  series: [2, 1].map((hours) => ({ bucket: hourAgo(hours), count: 44, bytesIn: 5, bytesOut: 2048, ...statuses })),
};
const point = { cpuPctAvg: 12.5, cpuPctMax: 80, memBytesAvg: 1048576, memBytesMax: 2097152, samples: 240 };
const taken = {
  ...{ bucketSize: "hour", series: [{ bucket: hourAgo(1), ...point }], current: { bucket: hourAgo(0), ...point } },
  ...{ disk: { staticBytes: 0, imageBytes: 1024 } },
  limits: { memoryMb: 256, cpuMillicores: 500, pidsLimit: 64, storageMb: 512 },
};

async function run(args: string[], { metrics = traffic as object, resources = taken as object } = {}) {
  await using api = await startApi({
    [`GET /api/v1/projects/${projectId}/metrics`]: ok({ metrics }),
    [`GET /api/v1/projects/${projectId}/resources`]: ok({ resources }),
  });
  await using directory = await aDirectory({ ".svc/state.json": state });
  const env = { SVC_TOKEN: "svc_key-secret", SVC_API_URL: api.url };
  return { ...(await svc(args, { cwd: directory.path, env })), paths: api.seen.map(({ path }) => path) };
}

test("figures are shown as lines, a chart each, and a table of the newest hours", async () => {
  const ended = await run(["metrics", "--span", "24h", "--channel", "preview"]);
  expect(ended.status, ended.stderr).toBe(0);
  expect(ended.paths.map((path) => path.split("?")[1])).toEqual([
    "span=24h&channel=preview",
    "span=24h&channel=preview",
  ]);
  expect(ended.stdout).toContain("88, in 10 B, out 4.0 KiB");
  expect(ended.stdout).toContain("2xx 40  3xx 0  4xx 3  5xx 1");
  expect(ended.stdout).toContain("12.5 %, at most 80 %; a container may take 50 %");
  expect(ended.stdout).toContain("1.0 MiB, at most 2.0 MiB; a container may take 256 MiB");
  expect(ended.stdout).toContain("██");
  expect(ended.stdout).toContain("·█·");
  const row = ended.stdout.split("\n").find((line) => line.startsWith(hourAgo(1).slice(0, 16).replace("T", " ")));
  expect(row?.split(/\s{2,}/).slice(1)).toEqual(["44", "3", "1", "5 B", "2.0 KiB"]);
});

test("the envelope has all that the platform said; what nobody visited and nothing runs of is told as that", async () => {
  const ended = await run(["metrics", "--json"]);
  expect(envelopeOf(ended)).toMatchObject({
    ok: true,
    operation: "metrics",
    span: "7d",
    metrics: traffic,
    resources: taken,
  });
  const empty = await run(["metrics"], {
    metrics: { ...traffic, totalRequests: 0, series: [] },
    resources: { ...taken, series: [], current: null },
  });
  expect(empty.stdout).toContain("none ran");
  expect(empty.stdout).not.toContain("at most");
  expect(empty.stdout).not.toContain("HOUR");
});

test("what runs since this hour took at most what it took last, and what was stopped ran", async () => {
  const started = await run(["metrics"], { resources: { ...taken, series: [] } });
  expect(started.stdout).toContain("12.5 %, at most 80 %");
  const stopped = await run(["metrics"], { resources: { ...taken, current: null } });
  expect(stopped.stdout).toContain("nothing runs, at most 80 %");
});

test("a span that there is not is refused with those that there are", async () => {
  const ended = await run(["metrics", "--span", "2h", "--json"]);
  expect(envelopeOf(ended)).toMatchObject({ ok: false, error: { code: "CLI_INVALID_USAGE" } });
  expect(ended.paths).toEqual([]);
});

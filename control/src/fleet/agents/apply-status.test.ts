import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { HealthState, Observed, PlacementStatusSchema } from "@svc/proto/node";
import { describe, expect, test } from "vitest";
import { observationValue, placementValue } from "../cluster/keys.ts";
import { isActive, nextObservation } from "./apply-status.ts";
import { aPlacementValue } from "./builders.ts";

const now = new Date("2030-01-01T12:00:00.000Z");
const placement = aPlacementValue("p1", { epoch: 4 });
const address = "10.0.0.7";

const aStatus = (fields: MessageInitShape<typeof PlacementStatusSchema> = {}) =>
  create(PlacementStatusSchema, {
    placementId: "p1",
    epoch: 4n,
    statusSeq: 5n,
    observed: Observed.RUNNING,
    health: HealthState.HEALTHY,
    upstream: "10.0.0.7:31000",
    changedAt: "2030-01-01T11:59:59.000Z",
    ...fields,
  });
const apply = (
  status: MessageInitShape<typeof PlacementStatusSchema>,
  stored?: { statusSeq: number; observed: "starting" | "running" | "failed" },
) => nextObservation({ status: aStatus(status), placement, stored, address, now });

test("a report becomes an observation", () => {
  expect(apply({ restartSeq: 2 })).toEqual({
    write: {
      placementId: "p1",
      epoch: 4,
      statusSeq: 5,
      observed: "running",
      health: "healthy",
      restartSeq: 2,
      upstream: "10.0.0.7:31000",
      failure: null,
      build: null,
      changedAt: "2030-01-01T11:59:59.000Z",
    },
  });
});

test("what is set aside for a container is known from an agent that tells it", () => {
  const limits = { memoryMb: 512, cpuMillicores: 1_000, pidsLimit: 99 };
  const told = { ...limits, generation: 0, problem: null };
  expect(apply({ resources: limits })).toMatchObject({ write: { limits: told } });
  const reserved = { reservedMemoryMb: 64, reservedCpuMillicores: 25 };
  const write = { limits: { ...told, ...reserved } };
  expect(apply({ resources: { ...limits, ...reserved } })).toMatchObject({ write });
});

test("no number of a node is larger than what it is kept in, and no time has a year that a database does not take", () => {
  const [most, most64] = [2 ** 32 - 1, 2n ** 64n - 1n];
  const digest = `sha256:${"0".repeat(64)}`;
  const times = { since: "-271821-04-20T00:00:00Z", lastAt: "+275760-09-13T00:00:00Z" };
  const next = apply({
    ...{ statusSeq: most64, restartSeq: most, changedAt: "+010000-01-01T00:00:00Z" },
    build: { digest, sizeBytes: most64 },
    backup: { digest, sizeBytes: most64, dumpBytes: most64 },
    capture: { digest, sizeBytes: most64 },
    proof: { coveredAt: "", tookMs: most64, bytes: most64, tables: [{ schema: "public", name: "t", rows: most64 }] },
    crashing: { ...times, count: most, reason: "", nextStartAt: "" },
    resources: { generation: most64 },
  });
  if ("skip" in next) throw new Error(next.skip);
  expect(observationValue.parse(JSON.parse(JSON.stringify(next.write)))).toEqual(next.write);
  const { restartSeq, crashing, changedAt, limits } = next.write;
  const at = now.toISOString();
  expect({ restartSeq, crashing, changedAt }).toEqual({
    restartSeq: 2 ** 31 - 1,
    crashing: { since: at, lastAt: at, count: 2 ** 31 - 1, reason: "", nextStartAt: null },
    changedAt: at,
  });
  // The next generation of limits is one that can be kept as well.
  const nextLimits = { ...placement, limitsGeneration: (limits?.generation ?? 0) + 1 };
  expect(placementValue.parse(nextLimits)).toEqual(nextLimits);
});

test("how often a container ended in a row is known, in words that can be shown", () => {
  const since = "2030-01-01T11:59:00.123456789Z";
  const crashing = { since, lastAt: "yesterday", count: 3, reason: "It ended.\u001b[2J", nextStartAt: "" };
  expect(apply({ crashing })).toMatchObject({
    write: {
      crashing: {
        ...{ since: "2030-01-01T11:59:00.123Z", lastAt: now.toISOString(), count: 3 },
        ...{ reason: expect.not.stringContaining("\u001b"), nextStartAt: null },
      },
    },
  });
});

describe("a report is dropped", () => {
  test.each([
    { when: "the placement's epoch is another", status: { epoch: 3n }, skip: "another epoch" },
    { when: "the state is none of ours", status: { observed: 65 as Observed }, skip: "unknown state" },
    { when: "there is no state", status: { observed: Observed.UNSPECIFIED }, skip: "unknown state" },
    {
      when: "it was stored before",
      status: {},
      stored: { statusSeq: 5, observed: "running" },
      skip: "not newer",
    },
    {
      when: "a newer one was stored",
      status: {},
      stored: { statusSeq: 9, observed: "starting" },
      skip: "not newer",
    },
    {
      when: "the state would go back",
      status: {},
      stored: { statusSeq: 4, observed: "failed" },
      skip: "would go back",
    },
  ] as const)("when $when", ({ status, skip, ...rest }) => {
    expect(apply(status, "stored" in rest ? rest.stored : undefined)).toEqual({ skip });
  });

  test("when the placement is on another node", () => {
    expect(nextObservation({ status: aStatus(), placement: undefined, stored: undefined, address, now })).toEqual({
      skip: "not placed here",
    });
  });
});

test("what a container has is part of it, and why it does not have more is bounded", () => {
  const resources = { memoryMb: 64, cpuMillicores: 100, pidsLimit: 32, generation: 3n };
  const limits = { memoryMb: 64, cpuMillicores: 100, pidsLimit: 32, generation: 3 };
  expect(apply({ resources })).toMatchObject({ write: { limits: { ...limits, problem: null } } });
  const result = apply({ resources, resourcesProblem: `\u001b[31m${"x".repeat(10_000)}` });
  expect(result).toMatchObject({ write: { limits: { problem: expect.stringMatching(/^[\x20-\x7e…]{200,300}$/) } } });
});

test("a newer report in the same state is kept: health moves without it", () => {
  const result = apply({ statusSeq: 6n, health: HealthState.UNHEALTHY }, { statusSeq: 5, observed: "running" });
  expect(result).toMatchObject({ write: { statusSeq: 6, health: "unhealthy" } });
});

describe("an upstream", () => {
  test.each([
    { upstream: "10.0.0.7:31000", is: "10.0.0.7:31000" },
    { upstream: "10.0.0.8:31000", is: null },
    { upstream: "169.254.169.254:80", is: null },
    { upstream: "10.0.0.7:0", is: null },
    { upstream: "10.0.0.7:70000", is: null },
    { upstream: "10.0.0.7", is: null },
    { upstream: "10.0.0.7:80/x", is: null },
    { upstream: "", is: null },
  ])("'$upstream' of a node on 10.0.0.7 is read as $is", ({ upstream, is }) => {
    expect(apply({ upstream })).toMatchObject({ write: { upstream: is } });
  });

  test("is an entrance when its node says so", () => {
    expect(apply({ upstreamIsEntrance: true })).toMatchObject({ write: { isEntrance: true } });
  });

  test("may be an IPv6 address", () => {
    const status = aStatus({ upstream: "[fd00::7]:31000" });
    const result = nextObservation({ status, placement, stored: undefined, address: "fd00::7", now });
    expect(result).toMatchObject({ write: { upstream: "[fd00::7]:31000" } });
  });
});

test("what people will read is bounded and clean", () => {
  const failure = { code: "not a code", message: `\u001b[31m${"x".repeat(10_000)}`, exitCode: 137, oomKilled: true };
  const result = apply({ observed: Observed.FAILED, failure });
  if (!("write" in result) || result.write.failure === null) throw new Error("expected a failure");
  expect(result.write.failure).toMatchObject({ code: "NODE_TASK_FAILED", exitCode: 137, oomKilled: true });
  expect(result.write.failure.message.length).toBeLessThanOrEqual(4096);
  expect(result.write.failure.message.startsWith("[31mx")).toBe(true);
});

test("a build result counts only with a digest", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const platform = { os: "linux", architecture: "amd64" };
  expect(apply({ observed: Observed.COMPLETED, build: { digest, sizeBytes: 7n, platform } })).toMatchObject({
    write: { build: { digest, sizeBytes: 7, os: "linux", architecture: "amd64" } },
  });
  const warnings = Array.from({ length: 30 }, (_, at) => `${at}\u001b${"x".repeat(10_000)}`);
  const warned = apply({ observed: Observed.COMPLETED, build: { digest, sizeBytes: 7n, platform, warnings } });
  const told = ("write" in warned && warned.write.build?.warnings) || [];
  expect(told).toHaveLength(20);
  for (const [at, each] of told.entries()) {
    expect(each.startsWith(`${at}x`)).toBe(true);
    expect(Buffer.byteLength(each)).toBeLessThanOrEqual(4096);
  }
  expect(apply({ observed: Observed.COMPLETED, build: { digest: "latest" } })).toMatchObject({
    write: { build: null },
  });
});

test("a time that makes no sense is replaced by the time of arrival", () => {
  expect(apply({ changedAt: "yesterday" })).toMatchObject({ write: { changedAt: now.toISOString() } });
});

test.each([
  ["assigned", true],
  ["running", true],
  ["completed", false],
  ["failed", false],
  ["removed", false],
] as const)("%s is active: %s", (observed, active) => {
  expect(isActive(observed)).toBe(active);
});

test("of a build result only a key and a deployment that can be such are kept", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const [key, reusedFrom] = ["b".repeat(64), "11111111-2222-4333-8444-555555555555"];
  const report = (build: object) => {
    const result = apply({ observed: Observed.COMPLETED, build: { digest, ...build } });
    return "write" in result ? result.write.build : null;
  };
  expect(report({ key, reusedFrom })).toMatchObject({ key, reusedFrom });
  expect(report({ key: "x", reusedFrom: "\u001b[2J" })).toEqual(report({}));
  expect(report({ packages: ["left-pad", "@svc/realtime"] })).toMatchObject({ packages: ["@svc/realtime"] });
  expect(report({ packages: ["left-pad"] })).toEqual(report({}));
});

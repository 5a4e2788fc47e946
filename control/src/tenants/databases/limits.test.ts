import { expect, test } from "vitest";
import {
  hasOutgrown,
  isOverLimit,
  roleConnectionLimit,
  serverCacheMb,
  serverResources,
  serverSizeMb,
} from "./limits.ts";

const plan = (db_size_mb: number, db_connection_limit: number, cpu_millicores = 1000) => ({
  ...{ db_size_mb, db_connection_limit, cpu_millicores },
});

test.each([
  { when: "the plan is small", engine: "postgres", of: plan(100, 5), memoryMb: 128 + 16 + 25, pidsLimit: 74 },
  { when: "the plan is usual", engine: "postgres", of: plan(1024, 20), memoryMb: 128 + 64 + 63, pidsLimit: 89 },
  { when: "the plan is large", engine: "postgres", of: plan(100_000, 100), memoryMb: 128 + 512 + 263, pidsLimit: 169 },
  { when: "the plan is usual", engine: "mariadb", of: plan(1024, 20), memoryMb: 192 + 64 + 25, pidsLimit: 121 },
  { when: "the plan has no connections", engine: "mariadb", of: plan(0, 0), memoryMb: 192 + 16 + 5, pidsLimit: 101 },
] as const)("the server of $engine when $when", ({ engine, of, memoryMb, pidsLimit }) => {
  expect(serverResources(engine, of)).toMatchObject({ memoryMb, pidsLimit, storageMb: 0 });
});

test.each(["postgres", "mariadb"] as const)("what is set aside for %s is never more than it may take", (engine) => {
  for (const cpu of [1, 10, 4000]) {
    const { memoryMb, cpuMillicores, reservedMemoryMb, reservedCpuMillicores } = serverResources(
      engine,
      plan(0, 0, cpu),
    );
    expect(reservedMemoryMb).toBeLessThanOrEqual(memoryMb);
    expect(reservedCpuMillicores).toBeLessThanOrEqual(cpuMillicores);
  }
});

test.each([
  { when: "it has what the plan gives", started: { connections: 35, sizeMb: 1024 }, outgrown: false },
  { when: "it has more of both", started: { connections: 115, sizeMb: 8192 }, outgrown: false },
  { when: "it takes fewer connections", started: { connections: 34, sizeMb: 1024 }, outgrown: true },
  { when: "its files are bound by less", started: { connections: 115, sizeMb: 1023 }, outgrown: true },
])("a plan has outgrown a server: $when", ({ started, outgrown }) => {
  expect(hasOutgrown(started, plan(1024, 20))).toBe(outgrown);
});

test("the console has connections that apps cannot use up", () => {
  expect(roleConnectionLimit(plan(100, 20))).toBe(25);
});

test("the cache follows the size, within bounds", () => {
  expect([0, 256, 1000, 8192, 1_000_000].map((size) => serverCacheMb(plan(size, 1)))).toEqual([16, 16, 63, 512, 512]);
});

test("a server is started by whatever plan", () => {
  expect([0, 10, 1000].map((size) => serverSizeMb(plan(size, 1)))).toEqual([64, 64, 1000]);
});

test("a branch of exactly the plan's size is within it", () => {
  expect(isOverLimit(1024 * 1024, plan(1, 1))).toBe(false);
  expect(isOverLimit(1024 * 1024 + 1, plan(1, 1))).toBe(true);
});

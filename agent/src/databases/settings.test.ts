import { expect, test } from "vitest";
import { serverSettings } from "./settings.ts";

const sizes = { memoryMb: 256, sizeMb: 1024, connections: 60, readOnly: false };
/** Settings by name, whatever the form that their engine wants. */
const read = (words: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    words
      .filter((word) => word !== "-c")
      .map((word) => word.replace(/^--/, "").split("=") as [string, string])
      .map(([name, value]) => [name.replaceAll("-", "_"), value]),
  );

test.each([
  { when: "the plan is small", changes: { sizeMb: 128 }, cache: 16, wal: 64, kept: 256 },
  { when: "it is a usual one", changes: {}, cache: 64, wal: 64, kept: 256 },
  { when: "it is large", changes: { sizeMb: 20_000, memoryMb: 4096 }, cache: 512, wal: 256, kept: 5000 },
  { when: "there is much to store and little memory", changes: { sizeMb: 20_000 }, cache: 64, wal: 256, kept: 5000 },
  { when: "there is hardly any memory", changes: { memoryMb: 32 }, cache: 16, wal: 64, kept: 256 },
])("Postgres divides what it is given when $when", ({ changes, cache, wal, kept }) => {
  const { shared_buffers, max_wal_size, max_slot_wal_keep_size } = read(
    serverSettings("postgres", { ...sizes, ...changes }),
  );
  expect([shared_buffers, max_wal_size, max_slot_wal_keep_size]).toEqual([`${cache}MB`, `${wal}MB`, `${kept}MB`]);
});

test.each([
  { when: "the plan is small", changes: { sizeMb: 128 }, cache: 16, log: 8, kept: 256 },
  { when: "it is a usual one", changes: {}, cache: 64, log: 64, kept: 256 },
  { when: "it is large", changes: { sizeMb: 20_000, memoryMb: 4096 }, cache: 512, log: 96, kept: 5000 },
])("MariaDB divides what it is given when $when", ({ changes, cache, log, kept }) => {
  const { innodb_buffer_pool_size, innodb_log_file_size, max_binlog_total_size } = read(
    serverSettings("mariadb", { ...sizes, ...changes }),
  );
  expect([innodb_buffer_pool_size, innodb_log_file_size, max_binlog_total_size]).toEqual([
    `${cache}M`,
    `${log}M`,
    `${kept}M`,
  ]);
});

test("Postgres starts whatever the size: at least two segments, and no more than the most", () => {
  for (const sizeMb of [0, 1, 64, 1024, 1_000_000]) {
    const { min_wal_size, max_wal_size } = read(serverSettings("postgres", { ...sizes, sizeMb }));
    const [least, most] = [min_wal_size, max_wal_size].map((text) => Number.parseInt(text ?? "", 10));
    expect(least).toBeGreaterThanOrEqual(2);
    expect(most).toBeGreaterThanOrEqual(least ?? 0);
  }
});

test.each(["postgres", "mariadb"] as const)("%s has as many sessions as control says", (engine) => {
  expect(read(serverSettings(engine, sizes))["max_connections"]).toBe("60");
});

test.each([
  { engine: "postgres", setting: "max_locks_per_transaction", is: "1024" },
  { engine: "mariadb", setting: "max_allowed_packet", is: "1G" },
] as const)("$engine takes what a dump of its database is made of: $setting", ({ engine, setting, is }) => {
  expect(read(serverSettings(engine, sizes))[setting]).toBe(is);
});

test.each([
  { engine: "postgres", setting: "default_transaction_read_only", is: { on: "on", off: "off" } },
  { engine: "mariadb", setting: "read_only", is: { on: "ON", off: "OFF" } },
] as const)("$engine is started read-only or not, as control says", ({ engine, setting, is }) => {
  expect(read(serverSettings(engine, { ...sizes, readOnly: true }))[setting]).toBe(is.on);
  expect(read(serverSettings(engine, sizes))[setting]).toBe(is.off);
});

test("each engine gets its settings in the form that it takes", () => {
  expect(serverSettings("postgres", sizes).slice(0, 2)).toEqual(["-c", "max_connections=60"]);
  expect(serverSettings("mariadb", sizes)[0]).toBe("--max-connections=60");
});

import { stat } from "node:fs/promises";
import { databaseEngines, databaseNames } from "@svc/proto";
import { systemClock } from "@svc/runtime/system";
import Docker from "dockerode";
import { afterEach, describe, expect, test } from "vitest";
import { rootOfContainers } from "../engine/context-owner.ts";
import { createTestDatabase, type TestDatabase } from "../testing/database.ts";
import { waitFor } from "../testing/wait.ts";
import { entryFailure } from "./exit.ts";
import { measureVolume } from "./volume-size.ts";

const docker = new Docker({ socketPath: "/var/run/docker.sock" });
const opened: TestDatabase[] = [];
const aDatabase = (kind: (typeof databaseEngines)[number]): TestDatabase => {
  const database = createTestDatabase(kind);
  opened.push(database);
  return database;
};
afterEach(async () => {
  for (const database of opened.splice(0)) await database[Symbol.asyncDispose]();
});

/** One that serves, with a table of one row that was acknowledged. */
async function withRow(kind: (typeof databaseEngines)[number]): Promise<TestDatabase> {
  const database = aDatabase(kind);
  await database.run();
  await database.serves();
  const made = await database.sql("CREATE DATABASE kept");
  expect(made.code, made.text).toBe(0);
  const as = { user: "svc_admin", password: database.password, database: "kept" };
  const filled = await database.sql("CREATE TABLE t (n int); INSERT INTO t VALUES (7)", as);
  expect(filled.code, filled.text).toBe(0);
  return database;
}
const rowOf = async (database: TestDatabase): Promise<string> => {
  const as = { user: "svc_admin", password: database.password, database: "kept" };
  return (await database.sql("SELECT n FROM t", as)).text.trim();
};

describe.each(databaseEngines)("an instance of %s", (kind) => {
  test("is made once, and later starts have what was written", async () => {
    const database = await withRow(kind);
    await database.engine.stopContainer(database.name, 60);
    expect(await database.engine.findContainer(database.name)).toMatchObject({ state: "exited", exitCode: 0 });
    // Told to make it again it does not: nobody knows whether the first word of it was heard.
    await database.run();
    await database.serves();
    expect(await rowOf(database)).toBe("7");
    await database.run({ init: null });
    await database.serves();
    expect(await rowOf(database)).toBe("7");
  });

  test("has what was written when its machine is another node by now, and knows what it was", async () => {
    const { id, password, owner, engine, name } = await withRow(kind);
    await engine.removeContainer(name);
    const next = { id, password, owner: { ...owner, nodeId: "n2" } };
    const stranger = createTestDatabase(kind, { ...next, formerNodeIds: [] });
    await expect(stranger.run({ init: null })).rejects.toMatchObject({ kind: "foreign" });
    const database = createTestDatabase(kind, { ...next, formerNodeIds: [owner.nodeId] });
    opened.push(database);
    await database.run({ init: null });
    await database.serves();
    expect(await rowOf(database)).toBe("7");
  });

  test("that was never made is not made without being told to", async () => {
    const database = aDatabase(kind);
    await database.run({ init: null });
    const { exitCode } = await database.ended();
    expect(entryFailure(exitCode)).toBe("DATABASE_DATA_MISSING");
    await database.run({ init: { verifier: "" } });
    expect(entryFailure((await database.ended()).exitCode)).toBe("DATABASE_SPEC_INVALID");
  });

  test("that is killed while it is made is made from the beginning", async () => {
    const database = aDatabase(kind);
    // At moments as they come: before the first file, in the middle of it, and close to its end.
    for (const delayMs of [0, 40, 150, 300, 600]) {
      await database.run();
      await new Promise<void>((resolve) => systemClock.after(delayMs, resolve));
      await database.engine.killContainer(database.name, "SIGKILL");
    }
    await database.run();
    await database.serves();
    expect((await database.sql("SELECT 1")).text.trim()).toBe("1");
  });

  test("that is killed comes back with what it acknowledged", async () => {
    const database = await withRow(kind);
    await database.engine.killContainer(database.name, "SIGKILL");
    await database.ended();
    // The same container, as after a crash, and then another one.
    await database.engine.startContainer(database.name);
    await database.serves();
    expect(await rowOf(database)).toBe("7");
    await database.engine.killContainer(database.name, "SIGKILL");
    await database.run({ init: null });
    await database.serves();
    expect(await rowOf(database)).toBe("7");
  });

  test("is the only one on its volume", async () => {
    const database = await withRow(kind);
    const second = database.spec({ name: `${database.name}-2`, labels: { "svc.placement": "second" } });
    await database.engine.createDatabaseContainer(second);
    await database.engine.startContainer(second.name);
    const { exitCode } = await database.ended(second.name);
    expect(entryFailure(exitCode)).toBe("DATABASE_HELD");
    expect(await rowOf(database)).toBe("7");
  });

  test("does not start over data of another version", async () => {
    const database = await withRow(kind);
    expect((await database.exec(["/bin/sh", "-c", 'echo "other 1" >/data/instance/engine'])).code).toBe(0);
    await database.run();
    expect(entryFailure((await database.ended()).exitCode)).toBe("DATABASE_VERSION_MISMATCH");
    expect(await database.log()).toContain("the data is not of");
  });

  test("takes what a restore of its dump is made of", async () => {
    const database = await withRow(kind);
    // A lock for everything that some thousand tables have, in one transaction; a row twice as long as what an app may have written.
    const [statement, answer] =
      kind === "postgres"
        ? ["SELECT count(pg_advisory_xact_lock(n)) FROM generate_series(1, 20000) n", "20000"]
        : ["SELECT LENGTH(REPEAT('x', 33554432))", "33554432"];
    const { code, text } = await database.sql(statement);
    expect({ code, text: text.trim() }).toEqual({ code: 0, text: answer });
  });

  test("stops well while sessions are open", async () => {
    const database = await withRow(kind);
    const sleeps = kind === "postgres" ? "SELECT pg_sleep(600)" : "SELECT SLEEP(600)";
    const session = database.sql(sleeps);
    const busy =
      kind === "postgres"
        ? "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(6%' AND pid <> pg_backend_pid()"
        : "SELECT count(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(6%' AND ID <> CONNECTION_ID()";
    await waitFor("the session", async () => (await database.sql(busy)).text.trim() === "1");
    await database.engine.stopContainer(database.name, 60);
    // Killed after the grace it would be 137.
    expect(await database.engine.findContainer(database.name)).toMatchObject({ state: "exited", exitCode: 0 });
    await session;
  });

  test("has no network, no capability, and nothing that it may write but its data", async () => {
    const database = await withRow(kind);
    const devices = await database.exec(["/bin/cat", "/proc/net/dev"]);
    expect([...devices.text.matchAll(/^\s*(\w+):/gm)].map(([, name]) => name)).toEqual(["lo"]);
    const status = (await database.exec(["/bin/cat", "/proc/self/status"])).text;
    expect(status).toMatch(/^CapEff:\s*0+$/m);
    expect(status).toMatch(/^CapBnd:\s*0+$/m);
    expect(status).toMatch(/^NoNewPrivs:\s*1$/m);
    for (const path of ["/usr/lib/svc-database/engine", "/etc/passwd", "/x", "/usr/lib/svc-database/none/x"]) {
      expect((await database.exec(["/bin/sh", "-c", 'echo x >"$0"', path])).code, path).not.toBe(0);
    }
    const { HostConfig, Mounts, Config } = await docker.getContainer(database.name).inspect();
    expect(HostConfig).toMatchObject({ NetworkMode: "none", ReadonlyRootfs: true, Privileged: false, Binds: null });
    expect(Mounts.map(({ Type, Destination }) => `${Type} ${Destination}`).toSorted()).toEqual([
      "bind /socket",
      "volume /data",
    ]);
    expect(JSON.stringify(Config)).not.toContain(database.password);
  });

  test("is reached by whoever may pass the directory of its socket, and by nobody else of the machine", async () => {
    const database = aDatabase(kind);
    await database.run();
    await database.serves();
    expect(Buffer.byteLength(database.path)).toBeLessThanOrEqual(100);
    const directory = await stat(database.path.slice(0, database.path.lastIndexOf("/")));
    const root = rootOfContainers(await database.engine.describe());
    expect(directory).toMatchObject({ uid: root.uid + 999, gid: 0 });
    expect(directory.mode & 0o777).toBe(0o710);
  });

  test("keeps its data until a word of its own, which nothing else is", async () => {
    const database = await withRow(kind);
    const { volume } = databaseNames(database.id);
    const [found] = await database.engine.listDatabaseVolumes();
    expect(found).toMatchObject({ of: "database", id: database.id, name: volume });
    expect(await measureVolume(found?.path ?? "")).toBeGreaterThan(10_000_000);
    expect(await database.engine.removeDatabaseVolume(volume)).toBe(false);
    await database.engine.removeContainer(database.name);
    expect(await database.engine.listDatabaseVolumes()).toHaveLength(1);
    expect(await database.engine.removeDatabaseVolume(volume)).toBe(true);
    expect(await database.engine.removeDatabaseVolume(volume)).toBe(true);
    expect(await database.engine.listDatabaseVolumes()).toEqual([]);
  });

  test("on a volume of somebody else is refused", async () => {
    const database = aDatabase(kind);
    const { volume } = databaseNames(database.id);
    await docker.createVolume({ Name: volume });
    try {
      await expect(database.run()).rejects.toMatchObject({ kind: "foreign" });
      await expect(database.engine.removeDatabaseVolume(volume)).rejects.toMatchObject({ kind: "foreign" });
    } finally {
      await docker.getVolume(volume).remove();
    }
  });

  test("whose query wants too much memory recovers, and nothing is lost", async () => {
    const database = await withRow(kind);
    const greedy =
      kind === "postgres"
        ? "SET work_mem='2GB'; SELECT count(*) FROM (SELECT DISTINCT repeat(md5(n::text), 20) FROM generate_series(1, 3000000) n) x"
        : "SET SESSION sort_buffer_size=1073741824; SET SESSION max_heap_table_size=4294967296; SET SESSION tmp_table_size=4294967296; SELECT count(*) FROM (SELECT DISTINCT concat(md5(seq), repeat('x', 400)) FROM seq_1_to_3000000 LIMIT 3000000) x";
    const { code } = await database.sql(greedy);
    expect(code).not.toBe(0);
    // Postgres loses a process and begins again by itself; of MariaDB the whole server goes, and is started again.
    await waitFor("the row", async () => {
      const container = await database.engine.findContainer(database.name);
      if (container?.state === "exited") await database.engine.startContainer(database.name);
      return container?.state === "running" && (await rowOf(database).catch(() => "")) === "7";
    });
  });
});

import { type DatabaseEngine, databaseEngines } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dumpCommand } from "../backups/command.ts";
import { createTestDatabase, type Said, type TestDatabase } from "../testing/database.ts";
import { type DatabaseOwner, makeOwner } from "../testing/database-owner.ts";
import { serverSettings } from "./settings.ts";

/** What an owner has before its database is full; `admin` is added by the administrator. */
const contents = {
  postgres: {
    owner: `CREATE TABLE t (n int PRIMARY KEY, note text DEFAULT repeat('x', 200)); INSERT INTO t SELECT generate_series(1, 2000);
      CREATE SEQUENCE s; CREATE VIEW v AS SELECT n FROM t; CREATE MATERIALIZED VIEW m AS SELECT n FROM t;
      CREATE FUNCTION writes() RETURNS void SECURITY DEFINER LANGUAGE sql AS 'INSERT INTO t VALUES (0)'`,
    admin: "CREATE FUNCTION admin_writes() RETURNS void SECURITY DEFINER LANGUAGE sql AS 'INSERT INTO t VALUES (0)'",
  },
  mariadb: {
    owner: `CREATE TABLE t (n int PRIMARY KEY, note varchar(200) DEFAULT 'x'); INSERT INTO t (n) SELECT seq FROM seq_1_to_2000;
      CREATE SEQUENCE s; CREATE VIEW v AS SELECT n FROM t; CREATE TABLE mem (n int) ENGINE=MEMORY; CREATE TABLE a (n int) ENGINE=Aria;
      CREATE PROCEDURE writes() SQL SECURITY DEFINER INSERT INTO t (n) VALUES (0)`,
    admin: null,
  },
} as const satisfies Record<DatabaseEngine, object>;

/** Every way to write that we know of. `{role}` and `{database}` are the owner's. */
const writes = {
  postgres: [
    ...["INSERT INTO t VALUES (0)", "UPDATE t SET n = -n", "DELETE FROM t", "TRUNCATE t", "INSERT INTO v VALUES (0)"],
    "MERGE INTO t USING (SELECT 0 AS n) x ON t.n = x.n WHEN NOT MATCHED THEN INSERT VALUES (0)",
    "COPY t (n) FROM STDIN",
    "BEGIN READ WRITE; INSERT INTO t VALUES (0); COMMIT",
    "SET TRANSACTION READ WRITE; INSERT INTO t VALUES (0)",
    "SET default_transaction_read_only = off; COMMIT; INSERT INTO t VALUES (0)",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE; COMMIT; INSERT INTO t VALUES (0)",
    "SELECT set_config('transaction_read_only', 'off', false); INSERT INTO t VALUES (0)",
    "ALTER ROLE {role} SET default_transaction_read_only = off",
    "ALTER DATABASE {database} SET default_transaction_read_only = off",
    ...["SELECT writes()", "SELECT admin_writes()"],
    "WITH x AS (INSERT INTO t VALUES (0) RETURNING n) SELECT n FROM x",
    "EXPLAIN ANALYZE INSERT INTO t VALUES (0)",
    "DO $$ BEGIN INSERT INTO t VALUES (0); END $$",
    "SELECT n INTO other FROM t",
    ...["SELECT lo_create(0)", "SELECT lo_from_bytea(0, 'x')", "SELECT nextval('s')", "SELECT setval('s', 9)"],
    ...["NOTIFY c", "SELECT pg_notify('c', 'x')", "SELECT pg_logical_emit_message(false, 'a', 'b')"],
    ...["SELECT pg_current_xact_id()", "SELECT n FROM t LIMIT 1 FOR UPDATE", "LOCK TABLE t IN EXCLUSIVE MODE"],
    ...["CREATE TABLE c (n int)", "CREATE TEMP TABLE c (n int)", "CREATE UNLOGGED TABLE c (n int)"],
    ...["CREATE INDEX ON t (note)", "CREATE SCHEMA c", "CREATE VIEW c AS SELECT 1", "CREATE EXTENSION pg_trgm"],
    ...["CREATE FUNCTION c() RETURNS int LANGUAGE sql AS 'SELECT 1'", "ALTER TABLE t ADD c int", "DROP TABLE t"],
    ...["COMMENT ON TABLE t IS 'x'", "GRANT SELECT ON t TO PUBLIC", "ALTER ROLE {role} PASSWORD 'x'"],
    ...["VACUUM t", "ANALYZE t", "REINDEX TABLE t", "CLUSTER t USING t_pkey", "REFRESH MATERIALIZED VIEW m"],
    "PREPARE TRANSACTION 'x'",
  ],
  mariadb: [
    ...["INSERT INTO t (n) VALUES (0)", "REPLACE INTO t (n) VALUES (0)", "UPDATE t SET n = n + 9000", "DELETE FROM t"],
    ...["TRUNCATE t", "INSERT INTO v VALUES (0)", "INSERT INTO mem VALUES (0)", "INSERT INTO a VALUES (0)"],
    "START TRANSACTION READ WRITE; INSERT INTO t (n) VALUES (0); COMMIT",
    "SET SESSION TRANSACTION READ WRITE; INSERT INTO t (n) VALUES (0)",
    "SET SESSION tx_read_only = 0; INSERT INTO t (n) VALUES (0)",
    ...["SET GLOBAL read_only = OFF", "SET SESSION read_only = OFF", "SET @@read_only = 0"],
    "SET STATEMENT read_only = OFF FOR INSERT INTO t (n) VALUES (0)",
    ...["CALL writes()", "ANALYZE INSERT INTO t (n) VALUES (0)", "SELECT NEXTVAL(s)", "SELECT SETVAL(s, 9)"],
    "EXECUTE IMMEDIATE 'INSERT INTO t (n) VALUES (0)'",
    "PREPARE p FROM 'INSERT INTO t (n) VALUES (0)'; EXECUTE p",
    "XA START 'x'; INSERT INTO t (n) VALUES (0); XA END 'x'; XA COMMIT 'x' ONE PHASE",
    ...[
      "CREATE TABLE c (n int)",
      "CREATE TABLE c AS SELECT 1",
      "CREATE INDEX c ON t (note)",
      "ALTER TABLE t ADD c int",
    ],
    ...["DROP TABLE t", "RENAME TABLE t TO c", "CREATE VIEW c AS SELECT 1", "DROP VIEW v", "CREATE SEQUENCE c"],
    ...[
      "CREATE PROCEDURE c() SELECT 1",
      "DROP PROCEDURE writes",
      "CREATE TRIGGER c BEFORE INSERT ON t FOR EACH ROW SET @x = 1",
    ],
    ...["CREATE DATABASE c", "DROP DATABASE {database}", "ALTER DATABASE {database} CHARACTER SET latin1"],
    ...["SET PASSWORD = PASSWORD('x')", "CREATE USER other", "GRANT SELECT ON {database}.* TO '{role}'@'%'"],
    ...[
      "SELECT 'x' INTO OUTFILE '/data/x'",
      "SELECT 'x' INTO DUMPFILE '/data/x'",
      "LOAD DATA INFILE '/etc/passwd' INTO TABLE t",
    ],
    ...[
      "INSTALL SONAME 'ha_connect'",
      "CREATE FUNCTION no_such RETURNS STRING SONAME 'udf.so'",
      "DELETE FROM mysql.global_priv",
    ],
    ...[
      "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO SELECT 1",
      "LOCK TABLES t WRITE",
      "OPTIMIZE NO_WRITE_TO_BINLOG TABLE a",
    ],
  ],
} as const satisfies Record<DatabaseEngine, readonly string[]>;

const refusals = {
  postgres:
    /read-only transaction|during recovery|recovery is in progress|read-write mode|prepared transactions are disabled/,
  mariadb:
    /--read-only|denied|is disabled|READ_ONLY|Can't open shared library|SESSION variable|GLOBAL variable|can't be set in SET STATEMENT/i,
} as const satisfies Record<DatabaseEngine, RegExp>;

/** What goes on as before; `says` is in its result. */
const reads: Record<DatabaseEngine, { sql: string; says: string }[]> = {
  postgres: [
    { sql: "SELECT count(*) FROM t", says: "2000" },
    { sql: "EXPLAIN ANALYZE SELECT * FROM t ORDER BY note", says: "Execution Time" },
    { sql: "SELECT pg_try_advisory_lock(7)", says: "t" },
    { sql: "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT max(n) FROM t; COMMIT", says: "2000" },
    { sql: "PREPARE p AS SELECT min(n) + 41 FROM t; EXECUTE p", says: "42" },
    {
      sql: "SET work_mem = '64kB'; SELECT count(*) FROM (SELECT n FROM generate_series(1, 200000) n ORDER BY -n) x",
      says: "200000",
    },
  ],
  mariadb: [
    { sql: "SELECT count(*) FROM t", says: "2000" },
    { sql: "ANALYZE SELECT * FROM t ORDER BY note", says: "2000" },
    { sql: "SELECT GET_LOCK('x', 0)", says: "1" },
    { sql: "START TRANSACTION READ ONLY; SELECT max(n) FROM t; COMMIT", says: "2000" },
    // What lasts as long as the session is its own affair.
    { sql: "CREATE TEMPORARY TABLE c (n int); INSERT INTO c VALUES (42); SELECT n FROM c", says: "42" },
  ],
};

describe.each(databaseEngines)("a read-only instance of %s", (kind) => {
  let database: TestDatabase;
  let owner: DatabaseOwner;
  const asOwner = (sql: string): Promise<Said> => database.sql(sql, owner);
  const asAdmin = (sql: string): Promise<Said> =>
    database.sql(sql, { user: "svc_admin", password: database.password, database: owner.database });
  const done = async (said: Promise<Said>): Promise<string> => {
    const { code, text } = await said;
    expect(code, text).toBe(0);
    return text.trim();
  };
  const start = async (readOnly: boolean): Promise<void> => {
    await database.engine.stopContainer(database.name, 60);
    await database.run({ init: null, readOnly });
    await database.serves();
  };

  beforeAll(async () => {
    database = createTestDatabase(kind);
    await database.run();
    await database.serves();
    owner = await makeOwner(database, kind);
    await done(asOwner(contents[kind].owner));
    if (contents[kind].admin !== null) await done(asAdmin(contents[kind].admin));
    await start(true);
  });
  afterAll(() => database?.[Symbol.asyncDispose]());

  test.each(writes[kind])("refuses its owner to %s", async (statement) => {
    const sql = statement.replaceAll("{role}", owner.user).replaceAll("{database}", owner.database);
    const { code, text } = await asOwner(sql);
    expect(code, text).not.toBe(0);
    expect(text).toMatch(refusals[kind]);
  });

  test.each(reads[kind])("lets its owner $sql", async ({ sql, says }) => {
    expect(await done(asOwner(sql))).toContain(says);
  });

  test("is backed up as any other", async () => {
    const { argv, env } = dumpCommand(kind, database.id, owner.password);
    const text = await done(
      database.exec(
        argv,
        Object.entries(env).map((pair) => pair.join("=")),
      ),
    );
    expect(text).toContain(kind === "postgres" ? "PostgreSQL database dump complete" : "Dump completed");
  });

  test("is still read-only when it was killed and started again", async () => {
    await database.engine.killContainer(database.name, "SIGKILL");
    await database.ended();
    await database.engine.startContainer(database.name);
    await database.serves();
    expect((await asOwner("DELETE FROM t")).code).not.toBe(0);
    expect(await done(asOwner("SELECT count(*) FROM t"))).toBe("2000");
  });

  test("writes again when it is started so, and nothing is missing or was added", async () => {
    await start(false);
    expect(await done(asOwner("SELECT count(*) FROM t WHERE n > 0"))).toBe("2000");
    await done(asOwner("INSERT INTO t (n) VALUES (0)"));
    await done(asOwner("DELETE FROM t WHERE n = 0"));
  });

  if (kind === "mariadb") {
    test("takes another password of the platform all the same", async () => {
      await start(true);
      await done(asAdmin(`ALTER USER '${owner.user}'@'%' IDENTIFIED BY PASSWORD '*${"0".repeat(40)}'`));
      expect((await asOwner("SELECT 1")).code).not.toBe(0);
    });
    return;
  }

  /** Line by line what the control file says. */
  const controlFile = async (): Promise<Map<string, string>> => {
    const text = await done(database.exec(["/usr/lib/postgresql/17/bin/pg_controldata", "/data/instance/data"]));
    return new Map(text.split("\n").map((line) => line.split(/:\s+/, 2) as [string, string]));
  };
  const history = async () => {
    const facts = await controlFile();
    return ["Database system identifier", "Latest checkpoint's TimeLineID"].map((name) => facts.get(name));
  };
  const checked = async (): Promise<void> => {
    await done(asAdmin("CREATE EXTENSION IF NOT EXISTS amcheck"));
    const indexes =
      "SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class ON oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE amname = 'btree'";
    await done(asAdmin(indexes));
    const damaged = "SELECT count(*) FROM pg_class, verify_heapam(oid) WHERE relkind IN ('r', 'm')";
    expect(await done(asAdmin(damaged))).toBe("0");
    expect(await done(asAdmin("SELECT coalesce(sum(checksum_failures), 0) FROM pg_stat_database"))).toBe("0");
  };

  test("goes on with the log where it ended, however often and whoever is killed", async () => {
    const before = await history();
    for (const isKilled of [false, true]) {
      for (const readOnly of [true, false]) {
        if (!readOnly) {
          const file = await controlFile();
          expect(file.get("Database cluster state")).toBe("in archive recovery");
        } else await done(asOwner("UPDATE t SET note = note || 'y'"));
        if (isKilled) {
          await database.engine.killContainer(database.name, "SIGKILL");
          await database.ended();
        }
        await start(readOnly);
        expect(await done(asOwner("SELECT count(*) FROM t"))).toBe("2000");
      }
    }
    expect(await done(asOwner("SELECT count(*) FROM t WHERE note LIKE '%xyy'"))).toBe("2000");
    expect(await history()).toEqual(before);
    await checked();
  });

  test("starts with fewer sessions than it had, as after a change to a smaller plan", async () => {
    const settings = serverSettings(kind, { memoryMb: 192, sizeMb: 16, connections: 20, readOnly: true });
    await database.engine.stopContainer(database.name, 60);
    await database.run({ init: null, readOnly: true, settings });
    await database.serves();
    expect(await done(asOwner("SELECT pg_is_in_recovery()"))).toBe("t");
    await start(false);
  });

  test("that has an unlogged table keeps what is in it, and is read-only unless a session undoes it", async () => {
    await done(asOwner("CREATE UNLOGGED TABLE u AS SELECT generate_series(1, 10) n"));
    await start(true);
    expect(await done(asOwner("SELECT count(*) FROM u"))).toBe("10");
    const refused = await asOwner("INSERT INTO u VALUES (0)");
    expect(refused.text).toMatch(refusals.postgres);
    await start(false);
    expect(await done(asOwner("SELECT count(*) FROM u"))).toBe("10");
    await done(asOwner("DROP TABLE u"));
    await start(true);
    expect(await done(asOwner("SELECT pg_is_in_recovery()"))).toBe("t");
  });
});

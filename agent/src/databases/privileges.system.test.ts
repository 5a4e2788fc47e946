import type { DatabaseEngine } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase, type Said, type TestDatabase } from "../testing/database.ts";
import { type DatabaseOwner, makeOwner } from "../testing/database-owner.ts";

/** What nobody may who owns one database and nothing else. `{role}` is its own name. */
const refused = {
  postgres: [
    "COPY (SELECT 1) TO PROGRAM 'cat'",
    "CREATE TABLE c (t text); COPY c FROM '/etc/passwd'",
    "COPY (SELECT 1) TO '/data/x'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('PG_VERSION')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_stat_file('/data/lock')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(lo_create(0), '/data/x')",
    "CREATE ROLE other",
    "CREATE DATABASE other",
    "DROP DATABASE postgres",
    "ALTER DATABASE postgres SET work_mem='1MB'",
    "CREATE TABLESPACE t LOCATION '/data'",
    "CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS 'begin end'; CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f()",
    "CREATE SUBSCRIPTION s CONNECTION 'host=/socket' PUBLICATION p",
    "SELECT pg_create_physical_replication_slot('s')",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    "LOAD 'auto_explain'",
    "ALTER SYSTEM SET work_mem='1MB'",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_hba_file_rules",
    "SET session_replication_role=replica",
    "SET temp_file_limit=-1",
    "SET log_statement='all'",
    "SELECT pg_promote()",
    "SELECT pg_switch_wal()",
    "SELECT pg_reload_conf()",
    "CHECKPOINT",
    "ALTER ROLE {role} CONNECTION LIMIT -1",
    "ALTER ROLE {role} SUPERUSER",
    "ALTER ROLE svc_admin PASSWORD 'x'",
    "SET ROLE svc_admin",
    "SET SESSION AUTHORIZATION svc_admin",
    "GRANT pg_execute_server_program TO {role}",
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION file_fdw",
    "CREATE EXTENSION postgres_fdw",
    "CREATE EXTENSION pageinspect",
    "CREATE FUNCTION c(int) RETURNS int LANGUAGE c AS '/usr/lib/postgresql/17/lib/plpgsql.so'",
    "CREATE FOREIGN DATA WRAPPER w",
  ],
  mariadb: [
    "SELECT 'x' INTO OUTFILE '/data/x'",
    "SELECT 'x' INTO DUMPFILE '/usr/lib/svc-database/none/x'",
    "CREATE TABLE l (t text); LOAD DATA INFILE '/etc/passwd' INTO TABLE l",
    "CREATE USER other",
    "CREATE ROLE other",
    "DROP USER svc_admin@localhost",
    "SET PASSWORD FOR svc_admin@localhost = PASSWORD('x')",
    "GRANT ALL ON *.* TO '{role}'@'%'",
    "CREATE DATABASE other",
    "DROP DATABASE mysql",
    "SELECT * FROM mysql.global_priv",
    "INSERT INTO mysql.plugin VALUES ('x', 'x.so')",
    "INSTALL SONAME 'ha_connect'",
    "INSTALL PLUGIN x SONAME 'ha_federatedx'",
    "CREATE FUNCTION no_such RETURNS STRING SONAME 'udf.so'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1')",
    "CREATE TABLE f (n int) ENGINE=FEDERATED CONNECTION='mysql://a@127.0.0.1/d/t'",
    "CREATE TABLE f (n int) ENGINE=CONNECT TABLE_TYPE=CSV FILE_NAME='/etc/passwd'",
    "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO SELECT 1",
    "SET GLOBAL max_connections=1",
    "SET GLOBAL read_only=OFF",
    "SET GLOBAL local_infile=ON",
    "SET GLOBAL general_log=ON",
    "SET SESSION sql_log_bin=0",
    "SET SESSION binlog_format=STATEMENT",
    "SHUTDOWN",
    "FLUSH TABLES WITH READ LOCK",
    "PURGE BINARY LOGS BEFORE NOW()",
    "SHOW BINARY LOGS",
    "SHOW BINLOG EVENTS",
    "CHANGE MASTER TO MASTER_HOST='127.0.0.1'",
    "CREATE DEFINER=svc_admin@localhost PROCEDURE p() SELECT 1",
    "SHOW ENGINE INNODB STATUS",
  ],
} as const satisfies Record<DatabaseEngine, readonly string[]>;

/** How an engine says that somebody may not, or that there is no such thing; anything else would be an accident of the test. */
const refusals =
  /permission denied|denied|must be (?:superuser|owner)|not allowed|is not available|cannot set parameter|Only roles with|privilege|Unknown storage engine|No such file|no such plugin|Can't open shared library|may not|is disabled|DATA DIRECTORY|must have/i;

describe.each(["postgres", "mariadb"] as const)("the owner of a database on %s", (kind) => {
  let database: TestDatabase;
  let owner: DatabaseOwner;
  const asOwner = (statement: string, name = owner.database): Promise<Said> =>
    database.sql(statement, { ...owner, database: name });

  beforeAll(async () => {
    database = createTestDatabase(kind);
    await database.run();
    await database.serves();
    owner = await makeOwner(database, kind);
  });
  afterAll(() => database[Symbol.asyncDispose]());

  test("does with it what it likes", async () => {
    const work =
      kind === "postgres"
        ? "CREATE SCHEMA s; CREATE TABLE s.t (n int, v vector(3)); INSERT INTO s.t VALUES (1, '[1,2,3]'); SELECT n FROM s.t"
        : "CREATE TABLE t (n int); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT n FROM t; CREATE FUNCTION one() RETURNS int RETURN 1; CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW SET NEW.n = one(); INSERT INTO t VALUES (2); SELECT max(n) FROM v";
    // The administrator adds what is not trusted.
    if (kind === "postgres") {
      const made = await database.sql("CREATE EXTENSION vector", {
        user: "svc_admin",
        password: database.password,
        database: owner.database,
      });
      expect(made.code, made.text).toBe(0);
    }
    const { code, text } = await asOwner(work);
    expect(code, text).toBe(0);
    expect(text.trim()).toMatch(/1$/);
  });

  test.each(refused[kind])("may not %s", async (statement) => {
    const { code, text } = await asOwner(statement.replaceAll("{role}", owner.user));
    expect(code, text).not.toBe(0);
    expect(text).toMatch(refusals);
  });

  test("sees no other database", async () => {
    const others = kind === "postgres" ? ["postgres", "template1"] : ["mysql", owner.database.replace("_", "x")];
    for (const name of others) expect((await asOwner("SELECT 1", name)).code, name).not.toBe(0);
    expect((await database.sql("SELECT 1", { ...owner, password: "" })).code).not.toBe(0);
  });

  test("reads no file of the server, and writes none beside its database", async () => {
    if (kind === "mariadb") {
      expect((await asOwner("SELECT LOAD_FILE('/etc/passwd')")).text.trim()).toBe("NULL");
      // Not refused, but left undone.
      await asOwner("CREATE TABLE elsewhere (n int) DATA DIRECTORY='/data'");
    }
    expect((await database.exec(["/bin/ls", "/data"])).text.trim().split("\n")).toEqual(["instance", "lock"]);
    expect(await database.log()).not.toContain("/etc/passwd");
  });
});

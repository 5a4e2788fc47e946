// @pure
import { type DatabaseEngine, databaseNames } from "@svc/proto";

/** A program with its arguments, and what it is told apart from them. */
export interface DumpCommand {
  argv: readonly string[];
  env: Readonly<Record<string, string>>;
}

const socketDir = "/socket";

/**
 * What writes a database as plain SQL, as the role that owns it: what that role may not read is no part of a backup. The
 * password is in the environment, where no list of processes shows it.
 *
 * @param databaseId a UUID
 */
export function dumpCommand(engine: DatabaseEngine, databaseId: string, password: string): DumpCommand {
  const { database, role } = databaseNames(databaseId);
  if (engine === "postgres") {
    return {
      argv: [
        "/usr/lib/postgresql/17/bin/pg_dump",
        // Roles and rights are the platform's, and others wherever it is restored.
        ...["--no-privileges", "--no-owner", "--no-publications", "--no-subscriptions"],
        // Whoever holds a table for longer has the backup fail rather than wait for hours.
        ...["--lock-wait-timeout=60s", "--no-password"],
        ...[`--host=${socketDir}`, `--username=${role}`, `--dbname=${database}`],
      ],
      env: { PGPASSWORD: password },
    };
  }
  return {
    argv: [
      ...["/usr/bin/mariadb-dump", "--no-defaults", "--single-transaction", "--quick"],
      ...["--skip-routines", "--skip-triggers", "--skip-events", "--no-tablespaces"],
      // Whatever a row takes.
      "--max-allowed-packet=1G",
      ...["--default-character-set=utf8mb4", `--socket=${socketDir}/mysqld.sock`, `--user=${role}`, database],
    ],
    env: { MYSQL_PWD: password },
  };
}

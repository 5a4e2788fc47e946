import postgres from "postgres";

/** A few connections are enough; each replica has one more, on which it listens. All of them count in the database's limit. */
const connectionsMax = 4;

/**
 * Connects when the first statement comes, and ends those that take longer than `statementMs`; 0: none. The platform sets
 * DATABASE_URL once `database.enabled` is in svc.yml.
 */
export function openDatabase({ max = connectionsMax, statementMs = 5_000 } = {}) {
  const url = process.env.DATABASE_URL;
  if (!url) throw new Error("DATABASE_URL is not set: this app needs a Postgres database");
  return postgres(url, {
    max,
    connect_timeout: 5,
    idle_timeout: 60,
    connection: { statement_timeout: statementMs },
    onnotice: () => {},
  });
}

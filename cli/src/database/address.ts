// @pure
import { type DatabaseEngine, hostAndPort } from "@svc/proto";

/** Where a database is and who logs in, as an address of it says. */
export interface Address {
  engine: DatabaseEngine;
  /** Without brackets; empty: what the client takes by itself. */
  host: string;
  port: number;
  user: string;
  /** A secret; null when the address has none. */
  password: string | null;
  database: string;
  /** What an address of Postgres may say besides, of what its client knows. */
  parameters: Readonly<Record<string, string>>;
}

const schemes: Readonly<Record<string, DatabaseEngine>> = {
  "postgres:": "postgres",
  "postgresql:": "postgres",
  "mysql:": "mariadb",
  "mariadb:": "mariadb",
};
const standardPorts = { postgres: 5432, mariadb: 3306 } as const;

/** Parameters for libpq. Others are some library's own, and libpq refuses what it does not know. */
const known = new Set([
  ...["host", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "channel_binding", "gssencmode"],
  ...["connect_timeout", "application_name", "target_session_attrs", "options"],
]);

/** Reads a DATABASE_URL; null when it is none of an engine that is known. */
export function parseAddress(text: string): Address | null {
  const url = URL.parse(text.trim());
  const engine = url === null ? undefined : schemes[url.protocol];
  if (url === null || engine === undefined) return null;
  const [user, password, database, host] = [url.username, url.password, url.pathname.slice(1), url.hostname].map(
    decoded,
  );
  if (user === null || password === null || database === null || host === null) return null;
  const parameters = Object.fromEntries([...url.searchParams].filter(([name]) => known.has(name)));
  return {
    engine,
    host: (host ?? "").replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? standardPorts[engine] : Number(url.port),
    user: user ?? "",
    password: password === "" ? (url.searchParams.get("password") ?? null) : (password ?? null),
    database: database ?? "",
    parameters: engine === "postgres" ? parameters : {},
  };
}

function decoded(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

/** The address without the password, for people. */
export function publicAddress({ engine, host, port, user, database }: Address): string {
  const scheme = engine === "postgres" ? "postgres" : "mysql";
  return `${scheme}://${user === "" ? "" : `${user}@`}${hostAndPort(host, port)}/${database}`;
}

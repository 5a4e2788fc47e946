// @pure
import type { DatabaseEngine } from "@svc/proto";
import type { Address } from "./address.ts";

const connectSeconds = 15;

/** How the client of an engine is told where a database is. The password is never an argument: everybody on a machine sees those. */
interface EngineClient {
  program: "psql" | "mariadb";
  argsOf(address: Address): string[];
  envOf(address: Address): Record<string, string>;
}

export const engineClients = {
  postgres: {
    program: "psql",
    // Neither a start-up file of its own, nor a question for a password.
    argsOf: () => ["--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1"],
    envOf: ({ host, port, user, password, database, parameters }) => ({
      ...(host === "" ? {} : { PGHOST: host }),
      PGPORT: `${port}`,
      ...(user === "" ? {} : { PGUSER: user }),
      ...(database === "" ? {} : { PGDATABASE: database }),
      PGCONNECT_TIMEOUT: `${connectSeconds}`,
      PGCLIENTENCODING: "UTF8",
      PGAPPNAME: "svc",
      ...libpqSettings(parameters),
      ...(password === null ? {} : { PGPASSWORD: password }),
    }),
  },
  mariadb: {
    program: "mariadb",
    // Has to come first. No settings file of the machine may add anything, and no file of it is read for a server.
    argsOf: ({ host, port, user, database }) => [
      "--no-defaults",
      "--batch",
      "--raw",
      "--skip-column-names",
      "--local-infile=0",
      "--default-character-set=utf8mb4",
      // A row of a dump is one statement. What the server takes counts.
      "--max-allowed-packet=1G",
      `--connect-timeout=${connectSeconds}`,
      "--protocol=tcp",
      `--host=${host}`,
      `--port=${port}`,
      `--user=${user}`,
      `--database=${database}`,
    ],
    envOf: ({ password }): Record<string, string> => (password === null ? {} : { MYSQL_PWD: password }),
  },
} as const satisfies Record<DatabaseEngine, EngineClient>;

const variables: Readonly<Record<string, string>> = {
  host: "PGHOST",
  sslmode: "PGSSLMODE",
  sslrootcert: "PGSSLROOTCERT",
  sslcert: "PGSSLCERT",
  sslkey: "PGSSLKEY",
  sslnegotiation: "PGSSLNEGOTIATION",
  channel_binding: "PGCHANNELBINDING",
  gssencmode: "PGGSSENCMODE",
  connect_timeout: "PGCONNECT_TIMEOUT",
  application_name: "PGAPPNAME",
  target_session_attrs: "PGTARGETSESSIONATTRS",
  options: "PGOPTIONS",
};

const libpqSettings = (parameters: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(parameters).flatMap(([name, value]) => {
      const variable = variables[name];
      return variable === undefined ? [] : [[variable, value]];
    }),
  );

/** What of a client's words a person is shown. */
const linesShown = 12;
const lineCharactersMax = 500;

/**
 * What a client's last words say of its failure. Before them mariadb repeats the statement that failed, which may be the rows
 * of a dump: nothing of it is shown.
 */
export function errorTailOf(engine: DatabaseEngine, stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  const begins = engine === "mariadb" ? lines.findLastIndex((line) => line.startsWith("ERROR ")) : -1;
  return lines
    .slice(Math.max(begins, lines.length - linesShown, 0))
    .map((line) => (line.length > lineCharactersMax ? `${line.slice(0, lineCharactersMax)}…` : line))
    .join("\n");
}

import { randomBytes } from "node:crypto";
import { type DatabaseEngine, databaseNames } from "@svc/proto";
import { expect } from "vitest";
import { type TestDatabase, verifierFor } from "./database.ts";

/** A role that owns a database and nothing else, as a tenant has it. */
export interface DatabaseOwner {
  user: string;
  password: string;
  database: string;
}

interface Provision {
  role: string;
  name: string;
  verifier: string;
}

const ownerMay = [
  ...["ALTER", "ALTER ROUTINE", "CREATE", "CREATE ROUTINE", "CREATE TEMPORARY TABLES", "CREATE VIEW", "DELETE", "DROP"],
  ...["EXECUTE", "INDEX", "INSERT", "LOCK TABLES", "REFERENCES", "SELECT", "SHOW VIEW", "TRIGGER", "UPDATE"],
];

/** Statements that make the role of an owner and a database that it owns, as the administrator. */
const provisions = {
  postgres: ({ role, name, verifier }: Provision) => [
    `CREATE ROLE ${role} LOGIN NOINHERIT PASSWORD '${verifier}' CONNECTION LIMIT 25`,
    `CREATE DATABASE ${name} OWNER ${role}`,
    `REVOKE ALL ON DATABASE ${name}, postgres, template1 FROM PUBLIC`,
  ],
  mariadb: ({ role, name, verifier }: Provision) => [
    `CREATE DATABASE ${name}`,
    `CREATE DATABASE ${name.replace("_", "x")}`,
    `CREATE USER '${role}'@'%' IDENTIFIED BY PASSWORD '${verifier}' WITH MAX_USER_CONNECTIONS 25`,
    // An underscore stands for any character.
    `GRANT ${ownerMay.join(", ")} ON \`${name.replaceAll("_", "\\_")}\`.* TO '${role}'@'%'`,
  ],
} as const satisfies Record<DatabaseEngine, (provision: Provision) => string[]>;

/** Makes the owner and its database on a server that serves. */
export async function makeOwner(database: TestDatabase, kind: DatabaseEngine): Promise<DatabaseOwner> {
  const { role, database: name } = databaseNames(database.id);
  const password = randomBytes(16).toString("hex");
  for (const statement of provisions[kind]({ role, name, verifier: verifierFor(kind, password) })) {
    const { code, text } = await database.sql(statement);
    expect(code, `${statement}: ${text}`).toBe(0);
  }
  return { user: role, password, database: name };
}

import type { DatabaseEngine } from "./database.ts";

/**
 * What database servers run in, unless an operator names another: the major version is the tag. No public registry has
 * them, since where the server keeps its data and how it is started is the platform's own.
 */
export const defaultDatabaseImages = {
  postgres: "svc-postgres:17",
  mariadb: "svc-mariadb:11.8",
} as const satisfies Record<DatabaseEngine, string>;

import { shareTestServer } from "@svc/control/stores/db/testing";

/** Once before all tests that need a database: the Postgres in which each test file has databases of its own. */
export default async function setup(): Promise<() => Promise<void>> {
  const server = await shareTestServer();
  return async () => await server[Symbol.asyncDispose]();
}

import { prepareTestServer } from "@svc/control/stores/db/testing";

/** Once before all tests that need a database: the files that each test file's own Postgres starts from. */
export default async function setup(): Promise<() => Promise<void>> {
  const prepared = await prepareTestServer();
  return async () => await prepared[Symbol.asyncDispose]();
}

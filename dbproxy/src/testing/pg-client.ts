import { once } from "node:events";
import { connect } from "node:net";
import pg from "pg";
import type { Branch } from "./branch.ts";
import { ports } from "./proxy.ts";

/** How an app reaches a branch through its bridge. */
const pgOptions = (host: string, { role, password, database }: Branch, rest: pg.ClientConfig = {}) => ({
  ...{ host, port: ports.postgres, user: role, password, database },
  ...rest,
});

/** A connected client; its connection may break without a word to the test. */
export async function pgClient(host: string, branch: Branch, rest: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client(pgOptions(host, branch, rest));
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** SQLSTATE of what a login is refused with, and "in" for one that is not. */
export async function pgOutcome(host: string, branch: Branch, rest: pg.ClientConfig = {}): Promise<string> {
  try {
    await (await pgClient(host, branch, rest)).end();
    return "in";
  } catch (error) {
    return error instanceof pg.DatabaseError ? (error.code ?? "no state") : String(error);
  }
}

/** Resolves once the client has lost its connection, or ended it. */
export const endOf = (client: pg.Client): Promise<void> =>
  new Promise((resolve) => client.once("end", () => resolve()));

/** Asks at `host` for the end of what a client does there; resolves when that is done, or not. */
export async function cancelAt(host: string, client: pg.Client): Promise<void> {
  // Public words of pg's, which its types do not have.
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
  const request = Buffer.alloc(16);
  for (const [at, value] of [16, 80877102, processID, secretKey].entries()) request.writeInt32BE(value, at * 4);
  const socket = connect(ports.postgres, host);
  socket.end(request);
  await once(socket.resume(), "close");
}

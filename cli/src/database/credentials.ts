import { databaseCredentialsReply, databaseHost } from "@svc/proto";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { type Address, parseAddress } from "./address.ts";
import { type Branch, databasePath, failureOf, notReady } from "./branch.ts";
import { openTunnel, type Tunnel } from "./tunnel.ts";

/**
 * Where a branch is and how to log in, as text and as it reads. Neither the address nor its password is ever shown.
 * DATABASE_NOT_READY also where there is none.
 */
export async function getDatabaseUrl(context: Context, branch: Branch): Promise<{ url: string; address: Address }> {
  const { databaseUrl } = await branch.api.post(databasePath(branch, "/dev-credentials"), databaseCredentialsReply, {
    failure: (error) =>
      error.status === 404 ? notReady(branch, { status: null, reason: null }, error) : failureOf(branch)(error),
  });
  context.terminal.hide(databaseUrl);
  const address = parseAddress(databaseUrl);
  if (address === null)
    throw new CliError("UNEXPECTED", "The platform gave an address that this version of svc cannot read", {
      hint: "Update the command line: get it again where you got this one",
    });
  if (address.password !== null) context.terminal.hide(address.password);
  return { url: databaseUrl, address };
}

export const getAddress = async (context: Context, branch: Branch): Promise<Address> =>
  (await getDatabaseUrl(context, branch)).address;

/**
 * Does `work` with an address that can be reached from here: where that of the branch is inside of the platform only,
 * by a tunnel that lasts as long. What the tunnel failed with says more than what the client made of it; what that means
 * for the database is known to `work`.
 */
export async function withReachable<T>(
  context: Context,
  branch: Branch,
  work: (address: Address) => Promise<T>,
): Promise<T> {
  const address = await getAddress(context, branch);
  if (address.host !== databaseHost) return work(address);
  await using tunnel = await openTunnel(context, branch);
  try {
    return await work({ ...address, host: "127.0.0.1", port: tunnel.port });
  } catch (thrown) {
    throw troubleOf(tunnel, thrown);
  }
}

function troubleOf(tunnel: Tunnel, thrown: unknown): unknown {
  const trouble = tunnel.trouble();
  if (trouble === null || !(thrown instanceof CliError && thrown.code === "DATABASE_NOT_READY")) return thrown;
  const { code, message, server } = trouble;
  const hints = new Set([thrown.hint, trouble.hint].filter((hint) => hint !== undefined));
  return new CliError(code, message, { hint: [...hints].join(". "), cause: trouble, ...(server && { server }) });
}

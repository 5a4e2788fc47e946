import { createHash } from "node:crypto";
import { type DatabaseEngine, databaseHost } from "@svc/proto";
import type { Context } from "../context.ts";
import { type Branch, createBranch, findBranch, getBranch, nameOf } from "../database/branch.ts";
import { getDatabaseUrl } from "../database/credentials.ts";
import { openTunnel, type Tunnel } from "../database/tunnel.ts";
import { CliError } from "../errors.ts";
import { envFile, putVariable, warnOfCommit } from "./env-file.ts";
import { answers, isHeld } from "./ports.ts";

/** The variable that apps find their database by. */
export const databaseVariable = "DATABASE_URL";
const probeMs = 2000;
/** Below the ports that systems give out by themselves, so that a tunnel's stays free for the next time. */
const tunnelPorts = { from: 15_432, count: 10_000 } as const;

export interface DevDatabase extends AsyncDisposable {
  url: string;
}

export interface DevDatabaseOptions {
  /** `--project`. */
  named: string | undefined;
  /** What the manifest says of the engine; null without one. */
  engine: DatabaseEngine | null;
  /** Where `.env.local` belongs: the app's directory. */
  directory: string;
  /** Closes the tunnel, if there is one. */
  signal: AbortSignal;
}

/**
 * Sees to it that the project has a Dev database, and that `.env.local` says how it is reached from this machine: by a tunnel
 * where it is not reached directly, which lasts until this is disposed.
 */
export async function provideDatabase(
  context: Context,
  { named, engine, directory, signal }: DevDatabaseOptions,
): Promise<DevDatabase> {
  const branch = await findBranch(context, named, "dev");
  await ensureBranch(context, branch, engine);
  const { url, address } = await getDatabaseUrl(context, branch);
  const isNear = address.host !== databaseHost && (await answers(context.clock, address.host, address.port, probeMs));
  const tunnel = isNear ? null : await openStable(context, branch, signal);
  const reached = tunnel === null ? url : withPlace(url, tunnel.port);
  context.terminal.hide(reached);
  const isNew = await putVariable(directory, databaseVariable, reached);
  const how = tunnel === null ? "" : `, by a tunnel at 127.0.0.1:${tunnel.port} while this runs`;
  const file = isNew ? `wrote ${databaseVariable} to ${envFile}` : `${envFile} has its ${databaseVariable}`;
  context.terminal.step(`Reaching ${nameOf(branch)}${how}; ${file}`, "done");
  await warnOfCommit(context, directory);
  return { url: reached, [Symbol.asyncDispose]: async () => tunnel?.[Symbol.asyncDispose]() };
}

/** Makes the branch where there is none. A key that may not look at it is taken at its word. */
async function ensureBranch(context: Context, branch: Branch, engine: DatabaseEngine | null): Promise<void> {
  try {
    if ((await getBranch(branch)).status === "ready") return;
  } catch (thrown) {
    if (thrown instanceof CliError && thrown.code === "CLOUD_FORBIDDEN_SCOPE") return;
    throw thrown;
  }
  const { made } = await createBranch(context, branch, { engine: engine ?? undefined, waits: true });
  context.terminal.step(`Made ${nameOf(branch)} (${made.engine})`, "done");
}

/** A tunnel at the port that this branch always has here, as long as nobody else uses that. */
async function openStable(context: Context, branch: Branch, signal: AbortSignal): Promise<Tunnel> {
  const { target, channel } = branch;
  const seed = createHash("sha256").update(`${target.id}/${channel}`).digest().readUInt32BE(0);
  const port = tunnelPorts.from + (seed % tunnelPorts.count);
  const within = { ...context, signal };
  const open = (at: number) =>
    openTunnel(within, branch, {
      port: at,
      onTrouble: ({ message }) => context.terminal.step(`database: ${message}`, "failed"),
    });
  if (await isHeld(context.clock, port)) return open(0);
  return open(port).catch((thrown: unknown) => {
    if (thrown instanceof CliError && thrown.code === "CLI_INVALID_USAGE") return open(0);
    throw thrown;
  });
}

/** The address of a database with another place in it. */
function withPlace(text: string, port: number): string {
  const url = new URL(text);
  url.hostname = "127.0.0.1";
  url.port = String(port);
  return url.href;
}

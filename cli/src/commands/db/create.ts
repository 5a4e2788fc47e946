import { type Channel, type DatabaseEngine, isOciManifest } from "@svc/proto";
import type { Screen } from "../../command.ts";
import type { Context } from "../../context.ts";
import { createBranch, findBranch } from "../../database/branch.ts";
import { CliError } from "../../errors.ts";
import { formatBytes } from "../../format.ts";
import { findManifest } from "../../manifest-file.ts";

interface Options {
  project: string | undefined;
  engine: DatabaseEngine | undefined;
  wait: boolean;
}

/** What `svc db enable` and `svc db branch` do. */
export async function create(context: Context, channel: Channel, { project: named, engine, wait }: Options) {
  const branch = await findBranch(context, named, channel);
  const wanted = engine ?? (named === undefined ? await writtenEngine(context) : undefined);
  const { made, ready } = await createBranch(context, branch, { engine: wanted, waits: wait });
  const { databaseId } = made;
  const facts = { project: branch.project, channel: made.channel, engine: made.engine, databaseId };
  if (ready === null) return { ...facts, status: made.status };
  const { status, sizeLimitMb, connectionLimit } = ready;
  return { ...facts, status, sizeLimitMb, connectionLimit };
}

/**
 * The engine that the manifest here asks for. Postgres is also what a manifest means that says nothing, and then the
 * platform keeps what the project has.
 */
async function writtenEngine(context: Context): Promise<DatabaseEngine | undefined> {
  try {
    const manifest = await findManifest(await context.manifestPlace());
    if (manifest === null || isOciManifest(manifest) || !manifest.database.enabled) return undefined;
    return manifest.database.engine === "postgres" ? undefined : manifest.database.engine;
  } catch (thrown) {
    if (thrown instanceof CliError && thrown.code === "MANIFEST_INVALID") return undefined;
    throw thrown;
  }
}

export function renderCreated(payload: Awaited<ReturnType<typeof create>>, { paint }: Pick<Screen, "paint">): string {
  const { channel, engine, status } = payload;
  const done = paint("green", "✓");
  if (status !== "ready")
    return `${done} The ${channel} database (${engine}) is ${status}\n  See it with \`svc db status --channel ${channel}\``;
  if (!("sizeLimitMb" in payload)) return `${done} The ${channel} database (${engine}) was there, and is ready`;
  const limits = `up to ${formatBytes(payload.sizeLimitMb * 1024 * 1024)} and ${payload.connectionLimit} connections`;
  return `${done} The ${channel} database (${engine}) is ready: ${limits}\n  Apps get its DATABASE_URL with their next deploy: \`svc deploy\``;
}

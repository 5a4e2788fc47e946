import {
  type Channel,
  channels,
  createDatabaseReply,
  type DatabaseEngine,
  databaseEngines,
  databaseReply,
  projectDetailReply,
} from "@svc/proto";
import type { Api } from "../api.ts";
import { flag } from "../command.ts";
import type { Context } from "../context.ts";
import { CliError, fromServerError, type ServerError } from "../errors.ts";
import { poll, pollDelay } from "../poll.ts";
import { resolveTarget, type Target, targetFacts } from "../target.ts";

/** A little longer than the platform itself tries. */
const readyMsMax = 6 * 60_000;

/** Of the commands about one branch. */
export const branchFlags = {
  project: flag.project,
  channel: flag.choice("--channel <channel>", "Whose database; default: production", channels),
};

/** Of the commands that make one. */
export const createFlags = {
  project: flag.project,
  engine: flag.choice("--engine <engine>", "What the first database of a project runs on, for good", databaseEngines),
  wait: flag.toggle("--no-wait", "Return once it is being created"),
};

/** A branch that a command is about, and the way to the platform. */
export interface Branch {
  api: Api;
  target: Target;
  channel: Channel;
  /** What envelopes say of the project. */
  project: ReturnType<typeof targetFacts>;
}

/** The project that is meant. Its slug is looked up where only its id is known and the key may see it. */
export async function findBranch(context: Context, named: string | undefined, channel: Channel): Promise<Branch> {
  const target = await resolveTarget(context, named);
  const api = await context.api();
  const slug = target.slug ?? (await findSlug(api, target.id));
  return { api, target: { id: target.id, slug }, channel, project: targetFacts({ id: target.id, slug }) };
}

async function findSlug(api: Api, id: string): Promise<string | null> {
  try {
    return (await api.get(`/projects/${id}`, projectDetailReply)).project.slug;
  } catch (thrown) {
    if (thrown instanceof CliError && thrown.code === "CLOUD_FORBIDDEN_SCOPE") return null;
    throw thrown;
  }
}

/** What people call a branch: `shop's preview database`. */
export const nameOf = ({ target, channel }: Pick<Branch, "target" | "channel">): string =>
  `the ${channel} database of ${target.slug ?? target.id}`;

/** A path below the database of a project. `below` begins with a slash or is empty. */
export const databasePath = ({ target, channel }: Branch, below = "", query: Record<string, string> = {}): string =>
  `/projects/${target.id}/database${below}?${new URLSearchParams({ channel, ...query })}`;

/** Tells a failed call with the command that shows how things stand with this branch. */
export const failureOf =
  (branch: Pick<Branch, "channel">) =>
  (error: ServerError): CliError => {
    const usual = fromServerError(error);
    // A table that is missing is looked for in a database that is there.
    if (error.code === "TABLE_NOT_FOUND") return usual;
    if (usual.code !== "DATABASE_NOT_READY" && usual.code !== "CLOUD_NOT_FOUND") return usual;
    return new CliError(usual.code, usual.message, {
      server: error,
      hint: `See it with \`svc db status --channel ${branch.channel}\`, create it with \`svc db branch ${branch.channel}\``,
    });
  };

/** What not every platform says besides. */
const branchReply = databaseReply.extend({
  reason: databaseReply.shape.reason.default(null),
  readOnly: databaseReply.shape.readOnly.default(false),
  protection: databaseReply.shape.protection.default(null),
});

export const getBranch = (branch: Branch) =>
  branch.api.get(databasePath(branch), branchReply, { failure: failureOf(branch) });

/**
 * Makes a branch unless there is one. `waits`: until it is ready; DATABASE_NOT_READY when it will not be. `ready` is
 * what was seen of it then, and null when it was there before or nobody waited.
 */
export async function createBranch(
  context: Context,
  branch: Branch,
  { engine, waits }: { engine: DatabaseEngine | undefined; waits: boolean },
) {
  const made = await branch.api.post(databasePath(branch), createDatabaseReply, {
    body: engine === undefined ? {} : { engine },
  });
  if (!waits || made.status === "ready") return { made, ready: null };
  context.onInterrupt(`It is created without you. See with \`svc db status --channel ${branch.channel}\``);
  const activity = context.terminal.activity(`Creating ${nameOf(branch)}`);
  try {
    return { made, ready: await awaitReady(context, branch) };
  } finally {
    activity.stop();
  }
}

function awaitReady(context: Context, branch: Branch) {
  const startedAtMs = context.clock.steadyMs();
  return poll(context, async () => {
    const found = await getBranch(branch);
    if (found.status === "ready") return { done: found };
    if (found.status !== "provisioning") throw notReady(branch, found);
    const elapsedMs = context.clock.steadyMs() - startedAtMs;
    if (elapsedMs > readyMsMax) throw notReady(branch, found);
    return { delayMs: pollDelay(elapsedMs) };
  });
}

/** For a branch that is missing, or in a state in which nothing can be done with it; `server` is what said so. */
export function notReady(
  branch: Pick<Branch, "target" | "channel">,
  { status, reason }: { status: string | null; reason: string | null },
  server?: ServerError,
): CliError {
  const hint =
    status === null || status === "error"
      ? `${status === null ? "Create it" : "Try again"} with \`svc db branch ${branch.channel}\``
      : `See how far it is with \`svc db status --channel ${branch.channel}\``;
  const state = status === null ? "does not exist" : `is ${status === "error" ? "in error" : status}`;
  const sentence = `${nameOf(branch)} ${state}${reason === null ? "" : `: ${reason}`}`;
  return new CliError("DATABASE_NOT_READY", `${sentence[0]?.toUpperCase()}${sentence.slice(1)}`, {
    hint,
    ...(server && { server }),
  });
}

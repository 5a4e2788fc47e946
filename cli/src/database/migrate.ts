import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { withLastLines } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { type Address, publicAddress } from "./address.ts";
import { type ClientEnd, runClient } from "./client.ts";
import { engineClients } from "./engines.ts";
import {
  applyArgs,
  failureHint,
  inOrder,
  listArgs,
  lockMariadb,
  namesIn,
  recordArgs,
  unfitNames,
} from "./migrations.ts";

const filesMax = 10_000;

interface Migration {
  name: string;
  path: string;
}

/** Names of the migrations in a directory, in their order. CLI_INVALID_USAGE when there is no such directory. */
export async function listMigrations(directory: string, shown: string): Promise<string[]> {
  const names = await readdir(directory).catch((thrown: unknown) => {
    if (!isFileError(thrown, "ENOENT", "ENOTDIR")) throw thrown;
    throw new CliError("CLI_INVALID_USAGE", `There is no directory ${shown}`, {
      hint: `Put migrations there (\`mkdir -p ${shown}\`), or name another one with --dir <path>`,
    });
  });
  const files: string[] = [];
  for (const name of inOrder(names)) if ((await stat(join(directory, name))).isFile()) files.push(name);
  const [unfit] = unfitNames(files);
  if (unfit !== undefined)
    throw new CliError("CLI_INVALID_USAGE", `${JSON.stringify(unfit)} is no name for a migration`, {
      hint: "Leave control characters out, and keep it below 256 characters",
    });
  if (files.length > filesMax)
    throw new CliError("CLI_INVALID_USAGE", `${shown} has more than ${filesMax} migrations`, {
      hint: "Put old ones together",
    });
  return files;
}

/**
 * Applies what is yet to be applied, file by file, and nothing that somebody else applies meanwhile. DATABASE_NOT_READY with the
 * client's last words at the first that fails.
 */
export async function applyMigrations(
  context: Context,
  address: Address,
  { directory, files }: { directory: string; files: readonly string[] },
): Promise<{ applied: string[]; skipped: string[] }> {
  const apply = address.engine === "postgres" ? applyPostgres : applyMariadb;
  return whileAlone(context, address, async () => {
    const before = await listApplied(context, address);
    const todo = files.filter((name) => !before.has(name));
    if (address.engine === "mariadb" && todo.length > 0)
      context.terminal.step("MariaDB commits each statement by itself: a file is recorded after it ran as a whole");
    const applied: string[] = [];
    for (const name of todo) {
      const activity = context.terminal.activity(`Applying ${name}`);
      try {
        if (!(await apply(context, address, { name, path: join(directory, name) }))) continue;
      } finally {
        activity.stop();
      }
      context.terminal.step(`Applied ${name}`, "done");
      applied.push(name);
    }
    const now = new Set(applied);
    return { applied, skipped: files.filter((name) => !now.has(name)) };
  });
}

async function listApplied(context: Context, address: Address): Promise<ReadonlySet<string>> {
  const listed = await runClient(context, address, { args: listArgs(address.engine) });
  requireSuccess(address, listed, { what: "The list of migrations cannot be read" });
  return namesIn(listed.stdout());
}

/**
 * Does `work` while nobody else migrates the same database. On MariaDB a session of its own has a lock meanwhile; on Postgres each file
 * takes one with the transaction that it runs in.
 */
async function whileAlone<T>(context: Context, address: Address, work: () => Promise<T>): Promise<T> {
  if (address.engine === "postgres") return work();
  const input = new PassThrough();
  const answered = Promise.withResolvers<void>();
  const session = runClient(context, address, {
    // What it prints comes at once.
    args: ["--unbuffered"],
    input,
    onOutput: answered.resolve,
  });
  const waiting = context.terminal.activity("Making sure that nobody else migrates");
  try {
    input.write(lockMariadb);
    // It ends before it answers only where it fails.
    const ended = await Promise.race([answered.promise, session]);
    waiting.stop();
    if (ended !== undefined) requireSuccess(address, ended, { what: "The lock of the migrations cannot be had" });
    return await work();
  } finally {
    waiting.stop();
    input.end();
    await session.catch(() => {});
  }
}

/** Whether the file was run: false where somebody else has applied it meanwhile. */
async function applyPostgres(context: Context, address: Address, { name, path }: Migration): Promise<boolean> {
  const ended = await runClient(context, address, { args: applyArgs(name, path) });
  if (ended.exitCode !== 0) {
    // What fails records nothing: where it is recorded, somebody else did it.
    const listed = await runClient(context, address, { args: listArgs("postgres") });
    if (listed.exitCode === 0 && namesIn(listed.stdout()).has(name)) return false;
  }
  requireSuccess(address, ended, { what: `${name} failed`, hint: failureHint("postgres", name) });
  return true;
}

async function applyMariadb(context: Context, address: Address, { name, path }: Migration): Promise<true> {
  const ended = await runClient(context, address, { args: [], input: createReadStream(path) });
  requireSuccess(address, ended, { what: `${name} failed`, hint: failureHint("mariadb", name) });
  const recorded = await runClient(context, address, { args: recordArgs(name) });
  requireSuccess(address, recorded, {
    what: `${name} was applied, but that could not be recorded`,
    hint: "Make the file bear being run again before the next `svc db migrate`",
  });
  return true;
}

/** DATABASE_NOT_READY when a client failed: what did, where, and the last lines of the client. */
export function requireSuccess(
  address: Address,
  { exitCode, errorTail }: ClientEnd,
  { what, hint }: { what: string; hint?: string },
): void {
  if (exitCode === 0) return;
  const { program } = engineClients[address.engine];
  const how = exitCode === null ? `${program} was ended` : `${program} ended with ${exitCode}`;
  const reason = `${what} (${how}, at ${publicAddress(address)})`;
  throw new CliError("DATABASE_NOT_READY", withLastLines(reason, errorTail === "" ? [] : errorTail.split("\n")), {
    hint: hint ?? "See how the database is with `svc db status`, then run the command again",
  });
}

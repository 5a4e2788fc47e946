import { Readable } from "node:stream";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { formatBytes } from "../format.ts";
import type { Address } from "./address.ts";
import { askClient, runClient } from "./client.ts";
import { checkDump, dumpStream } from "./dump-file.ts";
import { requireSuccess } from "./migrate.ts";
import { emptyMariadb, emptyPostgres, knowsRestrict, listDropsMariadb, packetLimitMariadb } from "./restore-script.ts";

/**
 * Puts a dump in the place of all that a database holds. On Postgres that is one transaction, so that a failure leaves
 * the old data; MariaDB loses it with the first statement. Returns the exit code of the client, which is 0:
 * DATABASE_NOT_READY otherwise.
 */
export async function restore(context: Context, address: Address, path: string): Promise<number> {
  const activity = context.terminal.activity("Reading the dump");
  try {
    const dump = { path, ...(await checkDump(path, address.engine)) };
    activity.update("Restoring");
    return address.engine === "postgres"
      ? await restorePostgres(context, address, dump)
      : await restoreMariadb(context, address, dump);
  } finally {
    activity.stop();
  }
}

interface Dump {
  path: string;
  longestBytes: number;
}

async function restorePostgres(context: Context, address: Address, { path }: Dump): Promise<number> {
  // Our own reading of the dump is not enough of a fence: a dump can change by what rules psql reads it.
  if (!knowsRestrict(await askClient(context, "postgres", ["--version"])))
    throw tooOld("psql", "13.22, 14.19, 15.14, 16.10, 17.6");
  const fence = `\\restrict ${context.random.uuid().replaceAll("-", "")}\n`;
  const ended = await runClient(
    context,
    { ...address, parameters: { ...address.parameters, options: standardStrings } },
    {
      args: ["--single-transaction", "--file=-"],
      input: dumpStream(path, "postgres", `${emptyPostgres}${fence}`),
    },
  );
  requireSuccess(address, ended, {
    what: "The restore failed",
    hint: "The database is as it was. Mend what the last lines name, then run the command again",
  });
  return ended.exitCode ?? 0;
}

const unchanged = "Nothing was changed. See with `svc db status`";

const tooOld = (program: string, since: string): CliError =>
  new CliError("DATABASE_NOT_READY", `This ${program} is too old: it would run programs that a dump names`, {
    hint: `Update it to ${since} or later, then run the command again`,
  });

/** A dump is read by these rules, here and by psql. */
const standardStrings = "-c standard_conforming_strings=on -c client_min_messages=warning";

async function restoreMariadb(context: Context, address: Address, { path, longestBytes }: Dump): Promise<number> {
  if (!(await askClient(context, "mariadb", ["--no-defaults", "--help"])).includes("--sandbox"))
    throw tooOld("mariadb client", "10.5.25, 10.6.18, 10.11.8, 11.4.2");
  const limit = await runClient(context, address, { args: [`--execute=${packetLimitMariadb}`] });
  requireSuccess(address, limit, { what: "The database cannot be asked what it takes", hint: unchanged });
  const limitBytes = Number(limit.stdout());
  if (longestBytes >= limitBytes)
    throw new CliError(
      "DATABASE_NOT_READY",
      `The dump has a statement of ${formatBytes(longestBytes)}, and the database's server takes ${formatBytes(limitBytes)}`,
      {
        hint: "Nothing was changed. Have operators raise max_allowed_packet, or make the dump with --skip-extended-insert",
      },
    );
  const listed = await runClient(context, address, { args: [`--execute=${listDropsMariadb}`] });
  requireSuccess(address, listed, { what: "The tables cannot be listed", hint: unchanged });
  const emptied = await runClient(context, address, {
    args: ["--sandbox"],
    input: Readable.from([emptyMariadb(listed.stdout())]),
  });
  const hint = "What the database held is gone at least in part: mend what made it fail, then restore again";
  requireSuccess(address, emptied, { what: "The tables cannot be dropped", hint });
  const ended = await runClient(context, address, { args: ["--sandbox"], input: dumpStream(path, "mariadb", "") });
  requireSuccess(address, ended, { what: "The restore failed half-way", hint });
  return ended.exitCode ?? 0;
}

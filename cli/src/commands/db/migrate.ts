import { join, resolve } from "node:path";
import { plural } from "@svc/proto";
import { command, flag } from "../../command.ts";
import type { Context } from "../../context.ts";
import { parseAddress, publicAddress } from "../../database/address.ts";
import { branchFlags, findBranch, nameOf } from "../../database/branch.ts";
import { withReachable } from "../../database/credentials.ts";
import { applyMigrations, listMigrations } from "../../database/migrate.ts";
import { CliError } from "../../errors.ts";
import { findReference } from "../../target.ts";

const standardDirectory = ".svc/migrations";

export const dbMigrate = command({
  name: "db migrate",
  summary: "Apply the migrations of this directory that a database has not had",
  details:
    "Runs *.sql in the order of their names with psql or mariadb, which has to be on this machine, and records each in _svc_migrations. On Postgres a file is one transaction; MariaDB commits statement by statement. Without --channel the database of DATABASE_URL is migrated where that is set, else the production database.",
  flags: { ...branchFlags, dir: flag.text("--dir <path>", `Where the migrations are (default: ${standardDirectory})`) },
  examples: ["svc db migrate", "svc db migrate --channel preview", "svc db migrate --dir db/migrations --json"],
  async run(context, { project: named, channel, dir }) {
    const directory =
      dir === undefined
        ? join((await context.manifestPlace()).directory, standardDirectory)
        : resolve(context.cwd, dir);
    const files = await listMigrations(directory, dir ?? standardDirectory);
    const url = context.env["DATABASE_URL"];
    if (channel === undefined && url !== undefined && url !== "") {
      const address = readAmbient(context, url);
      // Before anything is applied: what fails here has done nothing.
      const project = await knownProject(context, named);
      context.terminal.step(`Migrating ${publicAddress(address)}, which DATABASE_URL names`);
      const done = await applyMigrations(context, address, { directory, files });
      return { project, target: "environment" as const, engine: address.engine, ...facts(done) };
    }
    const branch = await findBranch(context, named, channel ?? "production");
    return withReachable(context, branch, async (address) => {
      context.terminal.step(`Migrating ${nameOf(branch)}`);
      const done = await applyMigrations(context, address, { directory, files });
      const { project, channel } = branch;
      return { project, target: "managed" as const, channel, engine: address.engine, ...facts(done) };
    });
  },
  render: ({ applied, skipped, files }, { paint }) => {
    if (applied === 0)
      return `${paint("green", "✓")} Nothing to apply: ${skipped === 0 ? "there are no migrations" : `${plural(skipped, "migration")} applied before`}`;
    return `${paint("green", "✓")} Applied ${plural(applied, "migration")}: ${files.join(", ")}`;
  },
});

const facts = ({ applied, skipped }: { applied: string[]; skipped: string[] }) => ({
  applied: applied.length,
  skipped: skipped.length,
  files: applied,
  skippedFiles: skipped,
});

function readAmbient(context: Context, url: string) {
  context.terminal.hide(url);
  const address = parseAddress(url);
  if (address === null)
    throw new CliError("CLI_INVALID_USAGE", "DATABASE_URL is no address of Postgres or MariaDB", {
      hint: "Mend it, or name a managed database with --channel <channel>",
    });
  if (address.password !== null) context.terminal.hide(address.password);
  return address;
}

/** The project as far as this machine knows it: the database of DATABASE_URL need not be one of the platform's. */
async function knownProject(context: Context, named: string | undefined) {
  const reference = await findReference(context, named);
  return {
    id: reference !== null && "id" in reference ? reference.id : null,
    slug: reference?.slug ?? null,
  };
}

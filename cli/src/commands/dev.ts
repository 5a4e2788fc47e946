import { command, flag } from "../command.ts";
import type { Context } from "../context.ts";
import { type DevOptions, serveHere } from "../dev/serve.ts";
import { CliError } from "../errors.ts";
import { formatDuration } from "../format.ts";

const portMax = 65_535;

export const dev = command({
  name: "dev",
  summary: "Run the app of this directory for development",
  details:
    "Finds out how: `dev.command` of the manifest, else the framework among the packages, else the script dev or start, else index.html, else `node .`. The port is in PORT. Needs no login by itself. --sync and --sync-only deploy to the dev channel, at a host of its own; they need a manifest of a project that is not static, and a plan with the dev channel.",
  flags: {
    db: flag.toggle("--db", "Make the Dev database if there is none, and put its address into .env.local"),
    sync: flag.toggle("--sync", "Deploy to the dev channel, too, whenever something was saved"),
    syncOnly: flag.toggle("--sync-only", "Deploy to the dev channel once, and run nothing here"),
    open: flag.toggle("--open", "Open a browser once the app answers"),
    port: flag.integer("--port <n>", "The port; default: the manifest's, or what is usual for the framework"),
    project: flag.project,
  },
  examples: ["svc dev", "svc dev --db --open", "svc dev --sync", "svc dev --sync-only --json"],
  async run(context, options) {
    requireSense(options);
    if (options.syncOnly) return onlySync(context, options);
    return serveHere(context, options);
  },
  render: (payload, { paint }) => {
    if ("deployment" in payload)
      return `${paint("green", "✓")} Deployed ${payload.slug} to dev in ${formatDuration(payload.durationMs)}\n  ${paint("bold", payload.url)}`;
    if (statusOf(payload) === 0) return "";
    return `${paint("red", "✗")} The server ended with status ${payload.exitCode}`;
  },
  exitCode: (payload) => ("deployment" in payload ? 0 : statusOf(payload)),
});

/** Ctrl-C is how a server is meant to end, whatever it or the package manager around it makes of that. */
const statusOf = ({ exitCode, asked = false }: { exitCode: number; asked?: boolean }): 0 | 1 =>
  asked || [0, 129, 130, 143].includes(exitCode) ? 0 : 1;

function requireSense({ db, sync, syncOnly, port }: DevOptions & { syncOnly: boolean }): void {
  if (sync && syncOnly)
    throw new CliError("CLI_INVALID_USAGE", "--sync and --sync-only exclude each other", { hint: "Give one of them" });
  if (syncOnly && (db || port !== undefined))
    throw new CliError(
      "CLI_INVALID_USAGE",
      `${db ? "--db" : "--port"} is for the server on this machine, which --sync-only does not run`,
      { hint: "Leave it out, or use --sync" },
    );
  if (port !== undefined && (port < 1 || port > portMax))
    throw new CliError("CLI_INVALID_USAGE", `${port} is no port`, {
      hint: `Name one from 1 to ${portMax}: \`--port 3000\``,
    });
}

async function onlySync(context: Context, { project, open }: DevOptions) {
  const { requireDevSync, syncOnce } = await import("../dev/sync.ts");
  const place = await context.manifestPlace();
  context.onInterrupt("Nothing was deployed. Start over with `svc dev --sync-only`");
  const api = await context.api();
  await requireDevSync(api, place);
  const result = await syncOnce(context, api, { place, named: project }, null);
  // Nothing is known from before, so that nothing can be unchanged.
  if (result === null) throw new Error("a first sync without a deployment");
  if (open && context.terminal.interactive) {
    const { openBrowser } = await import("../browser.ts");
    openBrowser(result.payload.url);
  }
  return result.payload;
}

import { databaseEngines } from "@svc/proto";
import { command, flag } from "../../command.ts";
import { branchFlags, findBranch, getBranch, nameOf, notReady } from "../../database/branch.ts";
import { openTunnel } from "../../database/tunnel.ts";
import { CliError } from "../../errors.ts";

export const dbProxy = command({
  name: "db proxy",
  summary: "Make a database reachable on a port of this machine, until Ctrl-C",
  details: `For any client of Postgres or MariaDB. Name, user and password are those of the app's DATABASE_URL (${databaseEngines.join(" or ")}); host and port are what this prints. Needs a login, or a key with database:credentials.`,
  flags: { ...branchFlags, port: flag.integer("--port <n>", "The port; default: one that is free") },
  examples: ["svc db proxy", "svc db proxy --channel preview --port 15432"],
  async run(context, { project: named, channel = "production", port = 0 }) {
    if (port < 0 || port > 65_535)
      throw new CliError("CLI_INVALID_USAGE", `${port} is no port`, {
        hint: "Name one from 1 to 65535: `--port 15432`",
      });
    const branch = await findBranch(context, named, channel);
    const found = await getBranch(branch);
    if (found.status !== "ready") throw notReady(branch, found);
    context.onInterrupt("The port is closed; the database goes on");
    await using tunnel = await openTunnel(context, branch, {
      port,
      onTrouble: ({ message }) => context.terminal.step(message, "failed"),
    });
    context.terminal.tell(`127.0.0.1:${tunnel.port} leads to ${nameOf(branch)} (${found.engine}), until Ctrl-C`);
    await new Promise((resolve) => context.signal.addEventListener("abort", resolve, { once: true }));
    context.signal.throwIfAborted();
    return { project: branch.project, channel, engine: found.engine, port: tunnel.port };
  },
  render: () => "",
});

import { command, flag } from "../command.ts";
import { CliError } from "../errors.ts";

export const mcp = command({
  name: "mcp",
  summary: "Serve this project's tools to an AI assistant, by MCP on stdin and stdout",
  details:
    "An assistant starts it by itself, once it is registered there. It may only look, and at this directory's project alone, unless flags say more. No tool tells values of variables or passwords. It prints nothing but JSON-RPC on stdout, and ends when stdin is closed.",
  flags: {
    project: flag.project,
    allowWrites: flag.toggle(
      "--allow-writes",
      "Also tools that change something: deploy, rollback, stop, set_password …",
    ),
    allProjects: flag.toggle("--all-projects", "All projects of the key, instead of one"),
  },
  examples: ["svc mcp", "svc mcp --project shop --allow-writes", "svc mcp --all-projects"],
  ownsStdout: true,
  async run(context, { project, allowWrites, allProjects }) {
    if (project !== undefined && allProjects)
      throw new CliError("CLI_INVALID_USAGE", "--project and --all-projects exclude each other", {
        hint: "Give one of them",
      });
    if (context.stdin.isTTY === true)
      context.terminal.tell("This speaks MCP, and waits for a client on stdin. Register it in one: `svc mcp --help`");
    const { serve } = await import("../mcp/serve.ts");
    await serve({ surroundings: { ...context, print: () => {} }, reach: { named: project, allProjects }, allowWrites });
    return {};
  },
  render: () => "",
});

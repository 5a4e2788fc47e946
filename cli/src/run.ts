import { successEnvelope } from "./envelope.ts";
import { columnsOf, type Host } from "./host.ts";
import { operationOf, type Request, readCommandLine } from "./program.ts";

/** Reads the command line, runs what it asks for, prints the result or the error, and returns the exit status. */
export async function runRequest(argv: readonly string[], host: Host): Promise<number> {
  const operation = operationOf(argv);
  let request: Request;
  try {
    request = await readCommandLine(argv, columnsOf(host));
  } catch (thrown) {
    const { refuseLine } = await import("./execution.ts");
    return refuseLine(thrown, argv, host, operation);
  }
  if (request.kind === "help") {
    const json = argv.includes("--json");
    host.stdout.write(json ? successEnvelope("help", [], { help: request.text }) : request.text);
    return 0;
  }
  // Help is read by people who wait for it: it does without what only running a command needs.
  const { runCommand } = await import("./execution.ts");
  return runCommand(request, host, operation);
}

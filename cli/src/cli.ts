import { completeWord } from "./completions/word.ts";
import type { Host } from "./host.ts";
import { version } from "./version.ts";

/** Runs one command line and returns the exit status. Everything it has to say is written by then. */
export async function runCli(argv: readonly string[], host: Host): Promise<number> {
  if (asksVersion(argv)) return printVersion(argv, host);
  if (argv[0] === completeWord) {
    const { printCandidates } = await import("./completions/candidates.ts");
    return printCandidates(argv.slice(1), host);
  }
  // Everything else needs more code; asking for the version should not have to wait for it.
  const { runRequest } = await import("./run.ts");
  return runRequest(argv, host);
}

/** `svc --version`, and the other ways in which people ask for it. */
function asksVersion(argv: readonly string[]): boolean {
  const words = argv.filter((token) => !token.startsWith("-"));
  if (words.length > 0)
    return words.length === 1 && argv[0] === "version" && !argv.some((token) => /^(-h|--help)$/.test(token));
  return argv.some((token) => token === "--version" || token === "-V" || token === "-v");
}

function printVersion(argv: readonly string[], { stdout }: Host): number {
  const json = JSON.stringify({ ok: true, operation: "version", warnings: [], version });
  stdout.write(`${argv.includes("--json") ? json : version}\n`);
  return 0;
}

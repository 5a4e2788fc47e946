import { homedir } from "node:os";
import { type Host, runCli } from "./cli.ts";

/** Runs the command line of this process and sets its exit status. */
export async function main(): Promise<void> {
  const { stdin, stdout, stderr, env } = process;
  const interrupt = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.on(name, () => {
      // Who asks twice wants it to end at once.
      if (interrupt.signal.aborted) process.exit(name === "SIGINT" ? 130 : 143);
      interrupt.abort(name);
    });
  // A reader that has seen enough (`svc logs | head`) is no failure.
  for (const stream of [stdout, stderr])
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(0);
      throw error;
    });
  const host: Host = { env, cwd: process.cwd(), home: homedir(), stdin, stdout, stderr, signal: interrupt.signal };
  process.exitCode = await runCli(process.argv.slice(2), host);
}

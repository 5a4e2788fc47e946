import { homedir } from "node:os";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { runCli } from "./cli.ts";
import { exitCodes, interruptExitCodes } from "./errors.ts";
import type { EndSignal, Host } from "./host.ts";
import { createStop, type Hearer } from "./stop.ts";

/** Runs the command line of this process and sets its exit status. */
export async function main(): Promise<void> {
  const { stdin, stdout, stderr, env } = process;
  const interrupt = new AbortController();
  const next = createStop();
  let taker: ((name: EndSignal) => void) | null = null;
  const onWish = (name: keyof typeof interruptExitCodes, hearer: Hearer) => {
    const what = next(hearer);
    if (what === "stop") interrupt.abort(name);
    if (taker !== null) {
      if (what !== "nothing") taker(name);
    } else if (what === "exit") process.exit(interruptExitCodes[name]);
  };
  // The end of the terminal: by itself it ends the process, and leaves whatever that started.
  const onHangUp = () => {
    interrupt.abort("SIGHUP");
    taker?.("SIGHUP");
  };
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => onWish(name, "us"));
  process.on("message", (name) => {
    if (name === "SIGINT" || name === "SIGTERM") onWish(name, "starter");
  });
  // To hear of it is no reason to go on.
  process.channel?.unref();
  const onUnread = (then: () => void) => (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") then();
    else {
      // A full disk, mostly.
      stderr.write(`Error: cannot write: ${error.message} (UNEXPECTED)\n`);
      process.exit(exitCodes.UNEXPECTED);
    }
  };
  let isConcluded = false;
  // A reader that has seen enough (`svc logs | head`) is no failure; what went wrong is one whoever reads of it.
  stdout.on(
    "error",
    onUnread(() => {
      if (!isConcluded) process.exit(0);
    }),
  );
  // What is done goes on without anybody who looks.
  stderr.on(
    "error",
    onUnread(() => {}),
  );
  const host: Host = {
    clock: systemClock,
    random: systemRandom,
    env,
    cwd: workingDirectory(),
    home: homedir(),
    stdin,
    stdout,
    stderr,
    signal: interrupt.signal,
    conclude: () => {
      isConcluded = true;
    },
    takeSignals: (hear) => {
      taker = hear;
      process.on("SIGHUP", onHangUp);
      return {
        [Symbol.dispose]: () => {
          taker = null;
          process.off("SIGHUP", onHangUp);
        },
      };
    },
  };
  process.exitCode = await runCli(process.argv.slice(2), host);
}

/** Where it was, if it has been removed: commands that want something there say what is missing, and others do without. */
function workingDirectory(): string {
  try {
    return process.cwd();
  } catch {
    return process.env["PWD"] ?? "/";
  }
}

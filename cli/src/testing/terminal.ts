import { PassThrough, Writable } from "node:stream";
import { runCli } from "../cli.ts";

/** Runs the program in this process as a person at a terminal would, who types `typed` when first asked something. */
export async function runAtTerminal(
  argv: readonly string[],
  { cwd, env, typed }: { cwd: string; env: Readonly<Record<string, string>>; typed: string },
): Promise<{ status: number; stderr: string }> {
  let stderr = "";
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => stdin });
  const sink = (take: (text: string) => void) =>
    Object.assign(new Writable({ write: (chunk, _encoding, done) => done(void take(String(chunk))) }), {
      isTTY: true,
      columns: 200,
    });
  let isTyped = false;
  const status = await runCli(argv, {
    env: { ...env, SVC_NO_UPDATE_NOTICE: "1" },
    cwd,
    home: cwd,
    stdin,
    stdout: sink(() => {}),
    stderr: sink((text) => {
      stderr += text;
      if (isTyped || !stderr.includes("to go on")) return;
      isTyped = true;
      // The question is on its way to the screen, and is listened to only after that.
      setImmediate(() => stdin.write(typed));
    }),
    signal: AbortSignal.timeout(10_000),
  });
  return { status, stderr };
}

import { PassThrough, Writable } from "node:stream";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { runCli } from "../cli.ts";

/**
 * Runs the program in this process as a person at a terminal would, who types `typed` when first asked something (when
 * stderr says `asked`; `onAsked` is called then), and whose Ctrl-C anywhere else is `signal`.
 */
export async function runAtTerminal(
  argv: readonly string[],
  {
    cwd,
    env,
    typed = "",
    asked = "to go on",
    onAsked = () => {},
    columns = 200,
    signal = new AbortController().signal,
  }: {
    cwd: string;
    env: Readonly<Record<string, string>>;
    typed?: string;
    asked?: string;
    onAsked?: () => void;
    columns?: number;
    signal?: AbortSignal;
  },
): Promise<{ status: number; stdout: string; stderr: string; screen: string }> {
  let stdout = "";
  let stderr = "";
  // Both as they came.
  let screen = "";
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => stdin });
  const sink = (take: (text: string) => void) =>
    Object.assign(
      new Writable({
        write: (chunk, _encoding, done) => {
          screen += String(chunk);
          take(String(chunk));
          done();
        },
      }),
      { isTTY: true, columns },
    );
  let isTyped = false;
  const status = await runCli(argv, {
    clock: systemClock,
    random: systemRandom,
    env: { ...env, SVC_NO_UPDATE_NOTICE: "1" },
    cwd,
    home: cwd,
    stdin,
    stdout: sink((text) => {
      stdout += text;
    }),
    stderr: sink((text) => {
      stderr += text;
      if (isTyped || !stderr.includes(asked)) return;
      isTyped = true;
      // The question is on its way to the screen, and is listened to only after that.
      setImmediate(() => {
        stdin.write(typed);
        onAsked();
      });
    }),
    signal,
    conclude: () => {},
    takeSignals: (hear) => {
      const tell = () => hear(signal.reason);
      signal.addEventListener("abort", tell, { once: true });
      return { [Symbol.dispose]: () => signal.removeEventListener("abort", tell) };
    },
  });
  return { status, stdout, stderr, screen };
}

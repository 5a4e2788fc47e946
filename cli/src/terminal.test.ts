import { PassThrough } from "node:stream";
import { systemClock } from "@svc/runtime/system";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { expect, test } from "vitest";
import { Interrupted } from "./errors.ts";
import { createTerminal } from "./terminal.ts";

const { signal } = new AbortController();
const options = { clock: systemClock, env: {}, json: false, quiet: false, verbose: false, noColor: true, signal };

/** A terminal on streams of its own, and what it has said. */
function aTerminal(some: Partial<typeof options> & { isTTY?: boolean; env?: Record<string, string> } = {}) {
  const { isTTY = false, ...rest } = some;
  const stream = () => Object.assign(new PassThrough(), { isTTY, columns: 40 });
  const stderr = stream();
  const terminal = createTerminal({
    ...options,
    ...rest,
    stdin: Object.assign(new PassThrough(), { isTTY }),
    stdout: stream(),
    stderr,
  });
  return { terminal, said: () => String(stderr.read() ?? "") };
}

test("progress is plain lines where no terminal shows it", () => {
  const { terminal, said } = aTerminal();
  const activity = terminal.activity("Packing");
  activity.update("Uploading 5 B");
  terminal.step("Packed");
  terminal.log("a\nb\n");
  activity.stop();
  expect(said()).toBe("› Packing\n› Packed\na\nb\n");
});

test("where no terminal shows it, what goes on in silence says so each 30 s", async () => {
  const clock = createManualClock();
  const { terminal, said } = aTerminal({ clock });
  const activity = terminal.activity("Building");
  await clock.advance(29_000);
  expect(said()).toBe("› Building\n");
  terminal.log("npm ci\n");
  await clock.advance(29_000);
  expect(said()).toBe("npm ci\n");
  await clock.advance(1_000);
  expect(said()).toBe("› Building, 59 s so far\n");
  activity.update("Waiting for room");
  await clock.advance(30_000);
  expect(said()).toBe("› Waiting for room, 1 min 29 s so far\n");
  activity.stop();
  await clock.advance(90_000);
  expect(said()).toBe("");
});

test("--quiet is silent however long it takes", async () => {
  const clock = createManualClock();
  const { terminal, said } = aTerminal({ clock, quiet: true });
  terminal.activity("Building");
  await clock.advance(90_000);
  expect(said()).toBe("");
});

test("on a terminal one line changes, and others are printed above it", () => {
  const { terminal, said } = aTerminal({ isTTY: true });
  const activity = terminal.activity("Packing");
  expect(said()).toBe("\r\u001b[K⠋ Packing");
  terminal.step("Packed");
  expect(said()).toBe("\r\u001b[K› Packed\n\r\u001b[K⠋ Packing");
  activity.update("x".repeat(100));
  terminal.step("Queued");
  expect(said()).toBe(`\r\u001b[K› Queued\n\r\u001b[K⠋ ${"x".repeat(36)}…`);
  activity.stop();
  activity.stop();
  expect(said()).toBe("\r\u001b[K");
});

test("the words of a build are set apart where somebody looks on", () => {
  const { terminal, said } = aTerminal({ isTTY: true });
  terminal.log("npm ci\nadded 3 packages\n");
  terminal.step("Built", "done");
  terminal.step("Failed", "failed");
  expect(said()).toBe("│ npm ci\n│ added 3 packages\n✓ Built\n✗ Failed\n");
});

test("a pipeline has no changing line, and is asked nothing", () => {
  const { terminal, said } = aTerminal({ isTTY: true, env: { CI: "true" } });
  terminal.activity("Packing").stop();
  expect(terminal.interactive).toBe(false);
  expect(said()).toBe("› Packing\n");
});

test.each([
  [{ isTTY: true }, true],
  [{ isTTY: false }, false],
  [{ isTTY: true, json: true }, false],
])("with %j a person can be asked: %s", (some, expected) => {
  expect(aTerminal(some).terminal.interactive).toBe(expected);
});

/** A terminal at which somebody does `act` as soon as the first question is on the screen. */
function answering(act: (stdin: PassThrough) => void) {
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => stdin });
  const screen = () => Object.assign(new PassThrough(), { isTTY: true, columns: 80 });
  const stderr = screen();
  let said = "";
  stderr.on("data", (chunk) => {
    said += chunk;
    if (!said.includes("Type shop")) return;
    said = "";
    setImmediate(act, stdin);
  });
  return createTerminal({ ...options, stdin, stdout: screen(), stderr });
}

test.each([
  ["Ctrl-D", (stdin: PassThrough) => stdin.write("\u0004")],
  ["the end of the input", (stdin: PassThrough) => stdin.end()],
])("%s at a question cancels it, and every later one", async (_, end) => {
  const terminal = answering(end);
  expect(await terminal.ask("Type shop to go on")).toBeNull();
  expect(await terminal.askSecret("Type shop to go on")).toBeNull();
});

test("Ctrl-C at a question is none of its answers", async () => {
  const terminal = answering((stdin) => stdin.write("shop\u0003"));
  await expect(terminal.ask("Type shop to go on")).rejects.toThrow(Interrupted);
});

test("what was typed before the input ended is the answer", async () => {
  expect(await answering((stdin) => stdin.writableEnded || stdin.end("shop\r")).ask("Type shop to go on")).toBe("shop");
});

test("a question that nobody answers in its time is canceled", async () => {
  const terminal = answering(() => {});
  expect(await terminal.confirm("Type shop to go on", { initial: true, withinMs: 20 })).toBeNull();
});

test("one of several is chosen with the arrows and Enter, and Ctrl-D chooses none", async () => {
  const choices = ["apps/api", "apps/web"];
  const down = (stdin: PassThrough) => {
    if (stdin.writableEnded) return;
    stdin.write("\u001b[B");
    stdin.end("\r");
  };
  expect(await answering(down).choose("Type shop, or choose", choices)).toBe("apps/web");
  expect(await answering((stdin) => stdin.write("\u0004")).choose("Type shop, or choose", choices)).toBeNull();
});

test("--quiet leaves warnings and errors", () => {
  const { terminal, said } = aTerminal({ quiet: true });
  terminal.step("Packed");
  terminal.log("a");
  terminal.activity("Packing").stop();
  terminal.warn("careful");
  terminal.tell("Error");
  expect(said()).toBe("Warning: careful\nError\n");
});

test("--verbose says more", () => {
  const { terminal, said } = aTerminal({ verbose: true });
  terminal.verbose("GET /me 200");
  expect(said()).toBe("  GET /me 200\n");
});

test("nothing that is said drives the terminal, the pipeline, or gives a secret away", () => {
  const { terminal, said } = aTerminal({ env: { GITHUB_ACTIONS: "true" } });
  terminal.hide("svc_0123456789");
  terminal.log("::stop-commands::x\n\u001b[2Jkey svc_0123456789");
  terminal.step("::error::x");
  terminal.warn("postgres://u:secret@db.test/x");
  expect(said()).toBe(
    "> ::stop-commands::x\n[2Jkey [redacted]\n› > ::error::x\nWarning: postgres://u:[redacted]@db.test/x\n",
  );
});

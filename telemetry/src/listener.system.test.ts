import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { startOperatorsListener } from "./listener.ts";

/** A program that counts how often it is looked at. */
async function aListener(host = "127.0.0.1") {
  const warnings: string[] = [];
  const log = {
    info: () => {},
    warn: (_: object, message: string) => {
      if (message.startsWith("metrics")) warnings.push(message);
    },
  };
  const reads = { metrics: 0, unready: 0 };
  const state = { fails: false, nowMs: 0 };
  const source = {
    async metrics() {
      reads.metrics += 1;
      if (state.fails) throw new Error("not now");
      return `reads ${reads.metrics}\n`;
    },
    stuck: () => null,
    async unready() {
      reads.unready += 1;
      return null;
    },
  };
  const listener = await startOperatorsListener(
    { ...systemClock, steadyMs: () => state.nowMs },
    { host, port: 0 },
    source,
    log,
  );
  const ask = (path: string) => fetch(`http://127.0.0.1:${listener.port}${path}`);
  return { ask, reads, state, warnings, [Symbol.asyncDispose]: () => listener[Symbol.asyncDispose]() };
}

test("however many ask at once, metrics and readiness are read once, and again a moment later", async () => {
  await using program = await aListener();
  const { ask, reads, state } = program;
  const answers = await Promise.all(Array.from({ length: 10 }, async () => (await ask("/metrics")).text()));
  expect(answers).toEqual(Array.from({ length: 10 }, () => "reads 1\n"));
  await Promise.all(Array.from({ length: 10 }, () => ask("/readyz")));
  expect(reads).toEqual({ metrics: 1, unready: 1 });
  state.nowMs = 999;
  expect(await (await ask("/metrics")).text()).toBe("reads 1\n");
  state.nowMs = 1_000;
  expect(await (await ask("/metrics")).text()).toBe("reads 2\n");
});

test("what could not be read is read again at once", async () => {
  await using program = await aListener();
  program.state.fails = true;
  expect((await program.ask("/metrics")).status).toBe(503);
  program.state.fails = false;
  expect(await (await program.ask("/metrics")).text()).toBe("reads 2\n");
});

test.each([
  { host: "127.0.0.1", warned: false },
  { host: "0.0.0.0", warned: true },
  { host: "::", warned: true },
])("an address that is every address is warned of: $host", async ({ host, warned }) => {
  await using program = await aListener(host);
  expect(program.warnings.join()).toBe(
    warned ? "metrics are shown on every address of this machine: give it a private one to listen on" : "",
  );
});

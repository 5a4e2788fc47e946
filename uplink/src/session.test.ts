import { systemClock, systemRandom } from "@svc/runtime/system";
import { fixedRandom } from "@svc/runtime/testing/random";
import { expect, test } from "vitest";
import { createEndpoints } from "./endpoints.ts";
import { FencedError, runSession, type Send } from "./session.ts";

interface Req {
  say: string;
}
interface Res {
  message: { case: string; value: object };
}

const quiet = { info: () => {}, warn: () => {} };

/** Runs sessions against a scripted server: one list of replies per connection, then silence until it is aborted. */
function scripted(
  connections: Res[][],
  watch: { onMessage?(kind: string, send: Send<Req>): void } = {},
  urls = ["https://a.test"],
) {
  const endpoints = createEndpoints(urls, fixedRandom(0));
  const tried: string[] = [];
  const stop = new AbortController();
  const seen: string[] = [];
  const said: string[] = [];
  let opened = 0;
  const done = runSession<Req, Res>({
    clock: systemClock,
    random: systemRandom,
    endpoints,
    async *connect(requests, signal) {
      tried.push(endpoints.current());
      const replies = connections[opened];
      opened += 1;
      const reader = (async () => {
        for await (const request of requests) said.push(request.say);
      })();
      if (replies === undefined) stop.abort();
      for (const reply of replies ?? []) yield reply;
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      await reader;
      throw new Error("canceled");
    },
    onOpen: (send) => void send({ say: "hello" }),
    onMessage: ({ message }, send) => {
      seen.push(message.case);
      watch.onMessage?.(message.case, send);
    },
    onClose: () => seen.push("closed"),
    renew: (n) => ({ say: `renew ${n}` }),
    signal: stop.signal,
    log: quiet,
  });
  return { done, stop, seen, said, tried };
}

const message = (kind: string, value: object = {}): Res => ({ message: { case: kind, value } });

test("a superseded session closes and another one opens", async () => {
  const run = scripted([[message("welcome"), message("superseded")], [message("goAway", { reconnectAfterMs: 1 })]]);
  await run.done;
  expect(run.seen).toEqual(["welcome", "superseded", "closed", "goAway", "closed", "closed"]);
});

test("a fenced daemon stops for ever, after it was told why", async () => {
  const run = scripted([[message("welcome"), message("fenced", { reason: "replaced" })]]);
  await expect(run.done).rejects.toThrow(FencedError);
  expect(run.seen).toEqual(["welcome", "fenced", "closed"]);
});

test("renewals go on while they are unanswered", async () => {
  const run = scripted([[message("welcome", { renewEveryMs: 10, leaseTtlMs: 60_000 })]]);
  await expect.poll(() => run.said.length).toBeGreaterThanOrEqual(3);
  run.stop.abort();
  await run.done;
  expect(run.said.slice(0, 3)).toEqual(["hello", "renew 1", "renew 2"]);
});

test("renewals that stay unanswered end the session", async () => {
  const run = scripted([[message("welcome", { renewEveryMs: 10, leaseTtlMs: 40 })]]);
  await run.done;
  // After a stall of this process the first one has been unanswered for long enough.
  expect(run.said.slice(0, 2)).toEqual(["hello", "renew 1"]);
  expect(run.seen).toEqual(["welcome", "closed", "closed"]);
});

test("an abort ends the wait for the next session", async () => {
  const run = scripted([[]]);
  run.stop.abort();
  await run.done;
  expect(run.seen).toEqual(["closed"]);
});

test("whatever ends a session, the next one is opened at another endpoint", async () => {
  const urls = ["https://a.test", "https://b.test", "https://c.test"];
  const run = scripted(
    [
      [message("welcome"), message("goAway")],
      [message("welcome"), message("superseded")],
      [message("welcome", { renewEveryMs: 5, leaseTtlMs: 10 })],
    ],
    {},
    urls,
  );
  await run.done;
  expect(run.tried).toEqual([...urls, "https://a.test"]);
});

import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { createOutbound } from "./outbound.ts";

/** A peer that takes messages when told to. */
function aPeer() {
  let nowMs = 0;
  const done: (() => void)[] = [];
  const outbound = createOutbound<string>(
    { write: (_, callback) => done.push(callback) },
    { stuckAfterMs: 10_000, stuckBytes: 1000, clock: { ...systemClock, bootMs: () => nowMs } },
  );
  return {
    outbound,
    wait: (ms: number) => {
      nowMs += ms;
    },
    take: () => done.shift()?.(),
    why: () => outbound.stuck(nowMs),
  };
}

test("a peer that reads is never stuck", () => {
  const peer = aPeer();
  for (let i = 0; i < 100; i += 1) {
    peer.outbound.send("m", 600);
    peer.wait(9_000);
    expect(peer.why()).toBeNull();
    peer.take();
  }
  peer.wait(60_000);
  expect(peer.why()).toBeNull();
});

test("a peer that takes nothing for too long is stuck", () => {
  const peer = aPeer();
  peer.outbound.send("m");
  peer.wait(10_000);
  expect(peer.why()).toBeNull();
  peer.wait(1);
  expect(peer.why()).toBe("took nothing for 10001 ms");
});

test("time counts from the oldest message that is not taken", () => {
  const peer = aPeer();
  peer.outbound.send("a");
  peer.wait(8_000);
  peer.outbound.send("b");
  peer.wait(3_000);
  peer.take();
  expect(peer.why()).toBeNull();
});

test("a pile of messages is stuck, one large message is not", () => {
  const peer = aPeer();
  peer.outbound.send("large", 5_000);
  expect(peer.why()).toBeNull();
  peer.outbound.send("another", 10);
  expect(peer.why()).toBe("5010 bytes wait to be taken");
});

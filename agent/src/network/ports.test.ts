import { createServer } from "node:net";
import { systemRandom } from "@svc/runtime/system";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { afterEach, expect, test } from "vitest";
import { createPorts, isPortFree, type PortMemory } from "./ports.ts";

const [address, other] = ["127.0.9.5", "127.0.9.6"];
const range = { first: 23_100, last: 23_102 };
const held = new Set<number>();
const isHeld = (port: number): boolean => held.has(port);
const hold = (port: number): void => void held.add(port);
afterEach(() => held.clear());

/** A disk: agents that are given it come one after the other. */
function disk(): PortMemory {
  let ports: readonly number[] = [];
  return {
    load: () => ports,
    save(next) {
      ports = next;
    },
  };
}

test("takes at the same time each get their own, and then there is none", async () => {
  const ports = createPorts(createManualClock(), systemRandom, range, isPortFree, disk());
  const taken = await Promise.all([1, 2, 3, 4].map(() => ports.take([address], isHeld, hold)));
  expect(taken.filter((port) => port !== null).sort()).toEqual([23_100, 23_101, 23_102]);
  expect(taken.filter((port) => port === null)).toHaveLength(1);
});

test("a port on which somebody listens is not taken", async () => {
  const ports = createPorts(createManualClock(), systemRandom, { first: 23_100, last: 23_101 }, isPortFree, disk());
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(23_100, address, resolve));
  expect(await ports.isFree(address, 23_100)).toBe(false);
  expect(await ports.take([address], isHeld, hold)).toBe(23_101);
  expect(await ports.take([address], isHeld, hold)).toBeNull();
  // At another address it is.
  expect(await ports.isFree(other, 23_100)).toBe(true);
  expect(await ports.take([other, address], isHeld, hold)).toBeNull();
  await new Promise((resolve) => server.close(resolve));
});

test("a port that was given up is the last choice for ten minutes", async () => {
  const clock = createManualClock();
  const ports = createPorts(clock, systemRandom, range, isPortFree, disk());
  ports.rest(23_100);
  ports.rest(23_101);
  expect(await ports.take([address], isHeld, hold)).toBe(23_102);
  expect([23_100, 23_101]).toContain(await ports.take([address], isHeld, hold));
  held.clear();
  await clock.advance(10 * 60 * 1000);
  ports.rest(23_102);
  for (const _ of [1, 2]) expect([23_100, 23_101]).toContain(await ports.take([address], isHeld, hold));
});

test("what the agent before gave up, or held when it ended, is the last choice as well", async () => {
  const clock = createManualClock();
  const memory = disk();
  const before = createPorts(clock, systemRandom, range, isPortFree, memory);
  const [first, second] = [await before.take([address], isHeld, hold), await before.take([address], isHeld, hold)];
  before.rest(first ?? 0);
  held.clear();
  const rest = [23_100, 23_101, 23_102].filter((port) => port !== first && port !== second);
  const after = createPorts(clock, systemRandom, range, isPortFree, memory);
  expect([await after.take([address], isHeld, hold)]).toEqual(rest);
  // Once more, with nothing taken in between: an agent that crashes again and again.
  held.clear();
  await clock.advance(9 * 60 * 1000);
  createPorts(clock, systemRandom, range, isPortFree, memory);
  expect([...memory.load()].sort()).toEqual([23_100, 23_101, 23_102]);
});

test("what has rested and nobody holds is not remembered for ever", async () => {
  const clock = createManualClock();
  const memory = disk();
  const ports = createPorts(clock, systemRandom, range, isPortFree, memory);
  const first = await ports.take([address], isHeld, hold);
  ports.rest(first ?? 0);
  held.clear();
  await clock.advance(10 * 60 * 1000);
  const second = await ports.take([address], isHeld, hold);
  expect(memory.load()).toEqual([second]);
});

import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createGrants } from "./grants.ts";

function setUp() {
  const clock = createManualClock();
  const [granted, asked]: [string[], string[]] = [[], []];
  const grants = createGrants({
    clock,
    log: createLog("silent"),
    grant: (ids) => granted.push(...ids),
    askAgain: () => asked.push("again"),
  });
  return { clock, granted, asked, grants };
}

test("what a session names that nobody contests is granted at once", () => {
  const { asked, grants } = setUp();
  grants.open(0);
  expect(grants.name(["a"])).toBe(true);
  grants.close();
  expect(asked).toEqual([]);
});

test("what a contested session names is granted once it has stood, and from then on at once", async () => {
  const { clock, granted, grants } = setUp();
  grants.open(15_000);
  expect(grants.name(["a", "b"])).toBe(false);
  await clock.advance(14_999);
  expect(granted).toEqual([]);
  await clock.advance(1);
  expect(granted).toEqual(["a", "b"]);
  expect(grants.name(["c"])).toBe(true);
});

test("what a session named that did not stand is asked for again, and not granted by the next one's time", async () => {
  const { clock, granted, asked, grants } = setUp();
  grants.open(15_000);
  grants.name(["a"]);
  await clock.advance(10_000);
  grants.close();
  expect(asked).toEqual(["again"]);
  grants.open(15_000);
  await clock.advance(60_000);
  expect(granted).toEqual([]);
});

test("what the journal does not take when a session has stood is granted once it does", async () => {
  const clock = createManualClock();
  const granted: string[] = [];
  let isFull = true;
  const grants = createGrants({
    clock,
    log: createLog("silent"),
    grant(ids) {
      if (isFull) throw new Error("no space left on device");
      granted.push(...ids);
    },
    askAgain() {},
  });
  grants.open(15_000);
  grants.name(["a"]);
  await clock.advance(15_000);
  expect(grants.name(["b"])).toBe(false);
  isFull = false;
  await clock.advance(5_000);
  expect(granted).toEqual(["a", "b"]);
  expect(grants.name(["c"])).toBe(true);
});

import { tmpdir } from "node:os";
import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createDiskWatch, floorMb } from "./disk.ts";

test.each([
  { when: "a small disk", sizeMb: 10_000, set: null, floor: 2048 },
  { when: "a usual disk", sizeMb: 100_000, set: null, floor: 5000 },
  { when: "a huge disk", sizeMb: 4_000_000, set: null, floor: 10_240 },
  { when: "the operator's word", sizeMb: 100_000, set: 512, floor: 512 },
])("the floor of $when", ({ sizeMb, set, floor }) => {
  expect(floorMb({ sizeMb }, set)).toBe(floor);
});

const watchOf = (options: { dirs: string[]; set: number }) => {
  let reclaims = 0;
  const watch = createDiskWatch({
    clock: systemClock,
    findDirs: async () => options.dirs,
    set: options.set,
    async reclaim(isEnough) {
      reclaims += 1;
      expect(await isEnough()).toBe(false);
    },
    log: createLog("silent"),
  });
  return { watch, reclaims: () => reclaims };
};

test.each([
  { when: "there is room", dirs: [tmpdir()], set: 0, full: false },
  { when: "a disk is below the floor", dirs: [tmpdir()], set: 1e12, full: true },
  { when: "a directory cannot be seen", dirs: ["/nowhere"], set: 1e12, full: false },
])("when $when", async ({ dirs, set, full }) => {
  const { watch, reclaims } = watchOf({ dirs, set });
  if (full) await expect(watch.check()).rejects.toMatchObject({ code: "NODE_CAPACITY_UNAVAILABLE", isTransient: true });
  else await watch.check();
  expect(watch.isFull()).toBe(full);
  expect(reclaims()).toBe(full ? 1 : 0);
});

test("making room in vain is not repeated for everybody who asks", async () => {
  const { watch, reclaims } = watchOf({ dirs: [tmpdir()], set: 1e12 });
  await Promise.allSettled([watch.check(), watch.check(), watch.check()]);
  await expect(watch.check()).rejects.toThrow("disk space");
  expect(reclaims()).toBe(1);
});

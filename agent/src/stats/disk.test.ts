import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { createDiskGuard } from "./disk.ts";

test.each([
  { when: "there is room", dirs: [tmpdir()], floorMb: 0, refuses: false },
  { when: "a disk is below the floor", dirs: [tmpdir()], floorMb: 1e12, refuses: true },
  { when: "a directory cannot be seen", dirs: ["/nowhere"], floorMb: 1e12, refuses: false },
])("when $when", async ({ dirs, floorMb, refuses }) => {
  const checking = createDiskGuard(async () => dirs, floorMb)();
  if (refuses) await expect(checking).rejects.toMatchObject({ code: "NODE_CAPACITY_UNAVAILABLE", isTransient: true });
  else await checking;
});

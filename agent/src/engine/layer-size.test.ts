import { expect, test } from "vitest";
import { EngineError } from "./errors.ts";
import { isSizeRefusal, mayLimitLayers } from "./layer-size.ts";

const backed = (by: string) => [
  ["Backing Filesystem", by],
  ["Supports d_type", "true"],
];

test.each([
  { driver: "overlay2", status: backed("xfs"), may: true },
  { driver: "overlay2", status: backed("extfs"), may: false },
  { driver: "overlay2", status: [], may: false },
  { driver: "btrfs", status: [["Btrfs", ""]], may: true },
  { driver: "zfs", status: [["Zpool", "tank"]], may: true },
  { driver: "vfs", status: [], may: false },
  { driver: "overlayfs", status: [["driver-type", "io.containerd.snapshotter.v1"]], may: false },
])("$driver with $status", ({ driver, status, may }) => {
  expect(mayLimitLayers(driver, status)).toBe(may);
});

test.each([
  {
    cause: new EngineError("failed", "--storage-opt is supported only for overlay over xfs with 'pquota' mount option"),
    is: true,
  },
  { cause: new EngineError("failed", "btrfs: quota is not enabled"), is: true },
  { cause: new EngineError("failed", "no space left on device"), is: false },
  { cause: new EngineError("stalled", "create container: no answer; --storage-opt"), is: false },
])("$cause.message", ({ cause, is }) => {
  expect(isSizeRefusal(cause)).toBe(is);
});

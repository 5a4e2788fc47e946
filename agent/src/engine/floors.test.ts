import { describe, expect, test } from "vitest";
import { dockerfileProblem, type EngineVersions, leavesStubs } from "./floors.ts";

const mended: EngineVersions = { version: "28.2.2", containerd: "1.7.28", runc: "1.3.3", isRemapped: false };

describe("users' Dockerfiles are built", () => {
  test.each<[string, Partial<EngineVersions>]>([
    ["with everything mended", {}],
    ["with the older line that was mended as well", { version: "24.0.9", runc: "1.2.8" }],
    ["with versions that are newer than every line", { version: "31.0.0", containerd: "2.2.1", runc: "2.0.0" }],
    ["with what a distribution adds behind the numbers", { version: "27.5.1+dfsg4", containerd: "v1.7.24~ds1" }],
    ["with an old engine that remaps users", { version: "20.10.24+dfsg1", runc: "1.1.5+ds1", isRemapped: true }],
  ])("%s", (_, change) => {
    expect(dockerfileProblem({ ...mended, ...change })).toBeNull();
  });
});

describe("users' Dockerfiles are not built", () => {
  test.each<[string, Partial<EngineVersions>, RegExp]>([
    [
      "with Debian 12's engine",
      { version: "20.10.24+dfsg1" },
      /^Docker 20\.10\.24\+dfsg1 lacks .*CVE-2024-23651.*24\.0\.9, 25\.0\.2 or newer.*does not remap users$/,
    ],
    ["with a line of which a later version was mended", { version: "25.0.1" }, /^Docker 25\.0\.1 lacks/],
    ["with the last one before that", { version: "24.0.8" }, /^Docker 24\.0\.8 lacks/],
    ["with a line between two that were mended", { runc: "1.2.7" }, /^runc 1\.2\.7 lacks .*CVE-2025-31133/],
    ["with a candidate of the version that mends", { runc: "1.4.0-rc.1" }, /^runc 1\.4\.0-rc\.1 lacks/],
    ["with an old containerd", { containerd: "1.6.0" }, /^containerd 1\.6\.0 lacks/],
    ["when the engine does not say what it runs on", { runc: "" }, /^runc of an unknown version lacks/],
    ["with versions that are none", { version: "dev" }, /^Docker dev lacks/],
    ["for more than one reason", { version: "23.0.1", runc: "1.1.0" }, /^Docker 23\.0\.1 .*; runc 1\.1\.0 /],
  ])("%s", (_, change, reason) => {
    expect(dockerfileProblem({ ...mended, ...change })).toMatch(reason);
  });
});

test.each([
  ["20.10.24+dfsg1", true],
  ["24.0.8", true],
  ["24.0.9", false],
  ["25.0.1", true],
  ["26.1.5+dfsg1", false],
  ["", true],
])("the builder of %j leaves the mount points of steps to be removed by path: %s", (version, expected) => {
  expect(leavesStubs({ version })).toBe(expected);
});

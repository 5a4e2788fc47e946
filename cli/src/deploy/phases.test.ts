import { expect, test } from "vitest";
import { aRelease } from "../testing/api.ts";
import { phaseOf } from "./phases.ts";

const release = { ...aRelease, status: "not_configured" as const };
const artifact = { kind: "oci" as const, requestedReference: "r", digest: null, os: null, architecture: null };
const placed = (state: "placing" | "starting" | "running", routeConverged = false) => ({
  state,
  routeConverged,
  lastTransitionAt: null,
});

const silent = { problem: { code: "STALE_NODE_OBSERVATION", message: "" } } as const;
const lost = { problem: { code: "NODE_FENCE_REQUIRED", message: "" } } as const;
const full = { problem: { code: "NODE_CAPACITY_UNAVAILABLE", message: "No node has room." } } as const;

test.each([
  ["queued", { status: "queued", release }, "Waiting for its turn"],
  ["built", { status: "building", release }, "Building"],
  ["an image", { status: "building", release, artifact }, "Pulling the image"],
  [
    "a command to run",
    { status: "deploying", release: { ...release, status: "pending" } },
    "Running the release command",
  ],
  ["running it", { status: "deploying", release: { ...release, status: "running" } }, "Running the release command"],
  ["done with it", { status: "deploying", release: { ...release, status: "succeeded" } }, "Starting"],
  ["placed", { status: "deploying", release, placement: placed("starting") }, "Starting"],
  ["up", { status: "deploying", release, placement: placed("running") }, "Switching traffic over"],
  ["reached", { status: "deploying", release, placement: placed("running", true) }, "Starting"],
  [
    "built nowhere yet",
    { status: "building", release, placement: { ...placed("placing"), ...full } },
    "Waiting for room on the platform",
  ],
  [
    "placed nowhere yet",
    { status: "deploying", release, placement: { ...placed("placing"), ...full } },
    "Waiting for room on the platform",
  ],
  [
    "placed, but for one more container",
    { status: "deploying", release, placement: { ...placed("starting"), ...full } },
    "Starting",
  ],
  [
    "on a machine that is away",
    { status: "deploying", release, placement: { ...placed("starting"), ...silent } },
    "Waiting for a machine of the platform that does not answer",
  ],
  [
    "where nobody knows what ran",
    { status: "deploying", release: { ...release, status: "running" }, placement: { ...placed("starting"), ...lost } },
    "Waiting for the platform's administrator: the machine that has the release command does not answer",
  ],
  [
    "there, and its machine is away",
    { status: "running", release, placement: { ...placed("running"), ...silent } },
    null,
  ],
  ["there", { status: "running", release }, null],
  ["broken", { status: "failed", release }, null],
] as const)("a deployment that is %s", (_, deployment, doing) => {
  expect(phaseOf(deployment, false)?.doing ?? null).toBe(doing);
});

test("what is not built anew is prepared", () => {
  expect(phaseOf({ status: "building", release }, true)?.doing).toBe("Preparing");
  expect(phaseOf({ status: "queued", release }, true)?.doing).toBe("Waiting for its turn");
});

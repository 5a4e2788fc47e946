import { expect, test } from "vitest";
import { ociFailure } from "./failures.ts";

test.each([
  { node: "HEALTH_CHECK_FAILED", told: "OCI_HEALTH_CHECK_FAILED" },
  { node: "CRASH_LOOP", told: "OCI_DEPLOY_FAILED" },
  { node: "OUT_OF_MEMORY", told: "OCI_DEPLOY_FAILED" },
  { node: "START_FAILED", told: "OCI_DEPLOY_FAILED" },
  { node: "DEPLOY_FAILED", told: "OCI_DEPLOY_FAILED" },
  { node: "IMAGE_TOO_LARGE", told: "OCI_IMAGE_TOO_LARGE" },
  { node: "OCI_ENTRYPOINT_MISSING", told: "OCI_ENTRYPOINT_MISSING" },
  { node: "NODE_CAPACITY_UNAVAILABLE", told: "NODE_CAPACITY_UNAVAILABLE" },
  { node: "ROUTE_DIVERGED", told: "ROUTE_DIVERGED" },
  { node: "constructor", told: "constructor" },
])("$node of a node is told as $told", ({ node, told }) => {
  expect(ociFailure(node)).toBe(told);
});

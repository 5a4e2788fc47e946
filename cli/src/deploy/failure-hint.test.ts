import { deploymentSchema } from "@svc/proto";
import { expect, test } from "vitest";
import { aDeployment, deploymentId } from "../testing/api.ts";
import { failureHint } from "./failure-hint.ts";

const artifact = { kind: "oci", requestedReference: "ghcr.io/ada/shop:1", digest: null, os: null, architecture: null };
const built = (state: string) => ({ kind: "image", state, digest: null, sizeBytes: null, platform: null });

test.each([
  [{ errorCode: "OCI_AUTH_FAILED", artifact }, "svc registry set ghcr.io --username <name>"],
  [{ errorCode: "OCI_PULL_FAILED", artifact }, "image.reference"],
  [{ errorCode: "BUILD_FAILED" }, `svc logs ${deploymentId}`],
  [{ errorCode: "START_FAILED" }, `svc logs --runtime --deployment ${deploymentId}`],
  [{ errorCode: "OCI_HEALTH_CHECK_FAILED", artifact }, `svc logs --runtime --deployment ${deploymentId}`],
  [{ errorCode: "OUT_OF_MEMORY", portableArtifact: built("ready") }, `svc logs --runtime --deployment ${deploymentId}`],
  [{ errorCode: "OUT_OF_MEMORY", portableArtifact: built("failed") }, `svc logs ${deploymentId}`],
  [{}, `svc logs ${deploymentId}`],
])("after %j comes %s", (fields, next) => {
  expect(failureHint(deploymentSchema.parse(aDeployment(fields)))).toContain(next);
});

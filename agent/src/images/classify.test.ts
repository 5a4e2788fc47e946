import { expect, test } from "vitest";
import { classifyPull, parseReference } from "./classify.ts";

test.each([
  { text: "Get https://r.test/v2/: no basic auth credentials", code: "ARTIFACT_REGISTRY_UNAVAILABLE" },
  { text: "pull access denied for x, repository does not exist", code: "ARTIFACT_REGISTRY_UNAVAILABLE" },
  { text: "manifest unknown: manifest unknown", code: "ARTIFACT_NOT_FOUND" },
  { text: "manifest for x@sha256:ab not found", code: "ARTIFACT_NOT_FOUND" },
  { text: "no matching manifest for linux/amd64", code: "OCI_PLATFORM_UNSUPPORTED" },
  { text: "filesystem layer verification failed for digest sha256:ab", code: "ARTIFACT_DIGEST_MISMATCH" },
  { text: "layers from manifest don't match image configuration", code: "OCI_INSPECT_FAILED" },
  { text: "archive/tar: invalid tar header", code: "OCI_INSPECT_FAILED" },
  { text: "failed to register layer: Error processing tar file(exit status 1): operation", code: "OCI_INSPECT_FAILED" },
  {
    text: "failed to register layer: Error processing tar file(exit status 1): write /x: no space left on device",
    code: "NODE_CAPACITY_UNAVAILABLE",
  },
  { text: "dial tcp 127.0.0.1:5000: connect: connection refused", code: "ARTIFACT_REGISTRY_UNAVAILABLE" },
])("'$text' is $code", ({ text, code }) => {
  expect(classifyPull(text).code).toBe(code);
});

test("a reference pinned by digest is taken apart", () => {
  const digest = `sha256:${"ab".repeat(32)}`;
  expect(parseReference(`127.0.0.1:5000/svc/p/app@${digest}`)).toEqual({
    host: "127.0.0.1:5000",
    repository: "svc/p/app",
    digest,
  });
});

test.each(["r.test/x:1", "x@sha256:ab", "r.test/x@sha256:ABCD", ""])("'%s' is not pinned", (reference) => {
  expect(parseReference(reference)).toBeNull();
});

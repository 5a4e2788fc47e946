import { expect, test } from "vitest";
import { classifyPull, parseReference } from "./classify.ts";

test.each([
  {
    text: "Get https://r.test/v2/: no basic auth credentials",
    cluster: "ARTIFACT_REGISTRY_UNAVAILABLE",
    foreign: "OCI_AUTH_FAILED",
  },
  {
    text: "pull access denied for x, repository does not exist",
    cluster: "ARTIFACT_REGISTRY_UNAVAILABLE",
    foreign: "OCI_AUTH_FAILED",
  },
  { text: "manifest unknown: manifest unknown", cluster: "ARTIFACT_NOT_FOUND", foreign: "OCI_PULL_FAILED" },
  { text: "manifest for x@sha256:ab not found", cluster: "ARTIFACT_NOT_FOUND", foreign: "OCI_PULL_FAILED" },
  {
    text: "no matching manifest for linux/amd64",
    cluster: "OCI_PLATFORM_UNSUPPORTED",
    foreign: "OCI_PLATFORM_UNSUPPORTED",
  },
  {
    text: "filesystem layer verification failed for digest sha256:ab",
    cluster: "ARTIFACT_DIGEST_MISMATCH",
    foreign: "OCI_DIGEST_MISMATCH",
  },
  {
    text: "dial tcp 127.0.0.1:5000: connect: connection refused",
    cluster: "ARTIFACT_REGISTRY_UNAVAILABLE",
    foreign: "OCI_PULL_FAILED",
  },
])("'$text' is $cluster or $foreign", ({ text, cluster, foreign }) => {
  expect(classifyPull(text, "cluster").code).toBe(cluster);
  expect(classifyPull(text, "foreign").code).toBe(foreign);
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

import type { FailureCode } from "@svc/proto";

/** The cluster's own registry, or one that a user named. */
export type Origin = "cluster" | "foreign";

export type PullFailure = { code: FailureCode; message: string; isTransient: boolean };

const kinds: { matches: RegExp; cluster: PullFailure; foreign: PullFailure }[] = [
  {
    matches: /no basic auth credentials|unauthorized|denied|authentication required|incorrect username or password/i,
    cluster: {
      code: "ARTIFACT_REGISTRY_UNAVAILABLE",
      message: "The artifact registry refused this node's credentials.",
      isTransient: true,
    },
    foreign: {
      code: "OCI_AUTH_FAILED",
      message: "The registry wants a credential, or refused the stored one.",
      isTransient: false,
    },
  },
  {
    matches: /no matching manifest|does not match the specified platform|no match for platform/i,
    cluster: {
      code: "OCI_PLATFORM_UNSUPPORTED",
      message: "The image is not built for this node's platform.",
      isTransient: false,
    },
    foreign: {
      code: "OCI_PLATFORM_UNSUPPORTED",
      message: "The image is not built for Linux on this node's architecture.",
      isTransient: false,
    },
  },
  {
    matches: /not found|manifest unknown|name unknown|repository does not exist/i,
    cluster: {
      code: "ARTIFACT_NOT_FOUND",
      message: "The artifact is not in the registry any more. Deploy again.",
      isTransient: false,
    },
    foreign: {
      code: "OCI_PULL_FAILED",
      message: "The registry has no image of that name and digest.",
      isTransient: false,
    },
  },
  {
    matches: /digest|checksum|verification failed|unexpected commit/i,
    cluster: {
      code: "ARTIFACT_DIGEST_MISMATCH",
      message: "The registry delivered something else than the digest that was asked for.",
      isTransient: false,
    },
    foreign: {
      code: "OCI_DIGEST_MISMATCH",
      message: "The registry delivered something else than the digest that was asked for.",
      isTransient: false,
    },
  },
];

/**
 * What an error text of the engine means. The engine answers 500 with prose for most of them, so the prose is
 * all there is; nothing of it is passed on, since a registry wrote part of it.
 */
export function classifyPull(text: string, origin: Origin): PullFailure {
  const kind = kinds.find((candidate) => candidate.matches.test(text));
  if (kind !== undefined) return kind[origin];
  if (origin === "foreign") {
    return { code: "OCI_PULL_FAILED", message: "The image could not be pulled.", isTransient: true };
  }
  const message = "The artifact registry does not answer. Try again when it is back.";
  return { code: "ARTIFACT_REGISTRY_UNAVAILABLE", message, isTransient: true };
}

/** Parts of `host[:port]/path@sha256:…`; null when it is not pinned by digest. */
export function parseReference(reference: string): { host: string; repository: string; digest: string } | null {
  const match = /^([^/@\s]+)\/([^@\s]+)@(sha256:[0-9a-f]{64})$/.exec(reference);
  const [, host, repository, digest] = match ?? [];
  if (host === undefined || repository === undefined || digest === undefined) return null;
  return { host, repository, digest };
}

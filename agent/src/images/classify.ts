import type { FailureCode } from "@svc/proto";

export interface PullFailure {
  code: FailureCode;
  message: string;
  isTransient: boolean;
}

const kinds: { matches: RegExp; failure: PullFailure }[] = [
  {
    matches: /no basic auth credentials|unauthorized|denied|authentication required|incorrect username or password/i,
    failure: {
      code: "ARTIFACT_REGISTRY_UNAVAILABLE",
      message: "The artifact registry refused this node's credentials.",
      isTransient: true,
    },
  },
  {
    matches: /no matching manifest|does not match the specified platform|no match for platform/i,
    failure: {
      code: "OCI_PLATFORM_UNSUPPORTED",
      message: "The image is not built for this node's platform.",
      isTransient: false,
    },
  },
  {
    matches: /no space left on device/i,
    failure: {
      code: "NODE_CAPACITY_UNAVAILABLE",
      message: "The node's disk has no room for the image.",
      isTransient: true,
    },
  },
  {
    // Layers that are not what the image's description says, or packed in a way that this engine does not know.
    matches: /don't match image configuration|length mismatch|invalid tar header|processing tar file/i,
    failure: {
      code: "OCI_INSPECT_FAILED",
      message: "The node's container engine cannot unpack the image. Build it with gzip-compressed layers.",
      isTransient: false,
    },
  },
  {
    matches: /not found|manifest unknown|name unknown|repository does not exist/i,
    failure: {
      code: "ARTIFACT_NOT_FOUND",
      message: "The artifact is not in the registry any more. Deploy again.",
      isTransient: false,
    },
  },
  {
    matches: /digest|checksum|verification failed|unexpected commit/i,
    failure: {
      code: "ARTIFACT_DIGEST_MISMATCH",
      message: "The registry delivered something else than the digest that was asked for.",
      isTransient: false,
    },
  },
];

const noAnswer: PullFailure = {
  code: "ARTIFACT_REGISTRY_UNAVAILABLE",
  message: "The artifact registry does not answer. Try again when it is back.",
  isTransient: true,
};

/**
 * What an error text of the engine means. The engine answers 500 with prose for most of them, so the prose is
 * all there is; nothing of it is passed on, since an image wrote part of it.
 */
export const classifyPull = (text: string): PullFailure =>
  kinds.find(({ matches }) => matches.test(text))?.failure ?? noAnswer;

/** Parts of `host[:port]/path@sha256:…`; null when it is not pinned by digest. */
export function parseReference(reference: string): { host: string; repository: string; digest: string } | null {
  const match = /^([^/@\s]+)\/([^@\s]+)@(sha256:[0-9a-f]{64})$/.exec(reference);
  const [, host, repository, digest] = match ?? [];
  if (host === undefined || repository === undefined || digest === undefined) return null;
  return { host, repository, digest };
}

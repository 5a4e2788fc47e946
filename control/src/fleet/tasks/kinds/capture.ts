// @pure
import { create } from "@bufbuild/protobuf";
import { limits } from "@svc/proto";
import { CaptureSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import type { Kind, NewTask } from "./kind.ts";

const spec = z.object({
  kind: z.literal("capture"),
  /** What its browser runs in: on the nodes under this name, or in the cluster's registry by digest. */
  image: z.string(),
  /** The first page of the site. */
  url: z.string(),
  /** address:port of the edge that is asked. */
  edge: z.string(),
  targetRepository: z.string(),
});
export type CaptureTaskSpec = z.infer<typeof spec>;

/** A browser takes a processor for itself. */
const perNodeMax = 1;

/** Takes a picture of a site as visitors see it, and ends by itself. */
export const capture: Kind<CaptureTaskSpec, "screenshot"> = {
  owner: "screenshot",
  rules: {
    placement: "idle",
    crowd: { max: perNodeMax, reason: "busy with pictures of sites" },
    // Its own, and not that of a deployment.
    hasImage: false,
    isLasting: false,
    leaves: "redone",
    isVisited: false,
  },
  spec,
  needs: ({ image, targetRepository: repository }) => ({
    // Whoever pushes looks first for what is there.
    pull: [repository, ...repositoryOf(image)],
    push: { repository, kind: "screenshot" },
    baseImages: false,
  }),
  forNode: ({ image, url, edge, targetRepository }, { owner, gatePass }) => ({
    case: "capture",
    value: create(CaptureSpecSchema, {
      ...{ url, edge, targetRepository, image: { reference: image } },
      pass: owner.gate === null ? "" : gatePass(owner.gate),
      timeoutSeconds: limits.screenshotSeconds,
      width: limits.screenshotWidth,
      height: limits.screenshotHeight,
      maxBytes: BigInt(limits.screenshotBytesMax),
    }),
  }),
};

/** Of an image that is named by its digest, without the registry's host. */
function repositoryOf(image: string): string[] {
  const [, repository] = /^[^/]+\/([^@]+)@/.exec(image) ?? [];
  return repository === undefined ? [] : [repository];
}

const resources = {
  ...{ memoryMb: 512, cpuMillicores: 1000, pidsLimit: 256 },
  ...{ reservedMemoryMb: 128, reservedCpuMillicores: 100 },
  // It writes to memory only.
  storageMb: 0,
} as const;

export const captureTask = (of: Omit<CaptureTaskSpec, "kind">): NewTask<CaptureTaskSpec> => ({
  spec: { kind: "capture", ...of },
  ...resources,
  nodeSelector: {},
});

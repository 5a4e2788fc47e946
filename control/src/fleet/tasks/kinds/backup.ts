// @pure
import { create } from "@bufbuild/protobuf";
import { databaseEngines } from "@svc/proto";
import { BackupSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import type { Kind, NewTask } from "./kind.ts";

const spec = z.object({
  kind: z.literal("backup"),
  databaseId: z.string(),
  engine: z.enum(databaseEngines),
  /** What the server runs in. */
  image: z.string(),
  targetRepository: z.string(),
  timeoutSeconds: z.number().int(),
  maxDumpBytes: z.number().int(),
});
export type BackupTaskSpec = z.infer<typeof spec>;

/** Reading a database out keeps its disk busy; more than this many at once on one node slow every database there. */
const perNodeMax = 2;

/** Writes a database to the registry, on the node of its server, and ends by itself. */
export const backup: Kind<BackupTaskSpec, "backup"> = {
  owner: "backup",
  rules: {
    placement: "idle",
    crowd: { max: perNodeMax, reason: "busy with backups" },
    hasImage: false,
    isLasting: false,
    // Its server stays there as long.
    leaves: "redone",
    isVisited: false,
  },
  spec,
  needs: ({ targetRepository: repository }) => ({
    // Whoever pushes looks first for what is there.
    pull: [repository],
    push: { repository, kind: "backup" },
    baseImages: false,
  }),
  forNode: ({ kind: _, image, maxDumpBytes, ...rest }, { owner }) => ({
    case: "backup",
    value: create(BackupSpecSchema, {
      ...rest,
      image: { reference: image },
      maxDumpBytes: BigInt(maxDumpBytes),
      password: owner.password(),
    }),
  }),
};

const resources = {
  ...{ memoryMb: 256, cpuMillicores: 1000, pidsLimit: 32 },
  ...{ reservedMemoryMb: 32, reservedCpuMillicores: 50 },
  // What it writes passes by.
  storageMb: 0,
} as const;

/** Reads a database out on the node where its server is. */
export const backupTask = (of: Omit<BackupTaskSpec, "kind">, nodeId: string): NewTask<BackupTaskSpec> => ({
  spec: { kind: "backup", ...of },
  ...resources,
  nodeSelector: {},
  pinnedTo: nodeId,
});

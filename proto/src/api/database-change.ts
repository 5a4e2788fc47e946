import { z } from "zod";
import { databaseEngines, databaseStatuses } from "../database.ts";
import { channels } from "../lifecycle.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";
import { moment } from "./query.ts";

export const databaseChangeKinds = ["restore", "move", "upgrade"] as const;
const databaseChangeStates = [
  ...(["copying", "freezing", "draining", "stopping", "restoring"] as const),
  ...(["done", "failed"] as const),
] as const;

const node = replyObject({ id, name: z.string() });

/**
 * A branch on its way to another volume or server. `until`: restores to that moment; null: all there is. `coveredAt`: nothing
 * that was acknowledged before then is lost. `blockedMs`: for how long nobody could write; null: they could so far, or nobody
 * knows yet.
 */
export const databaseChange = replyObject({
  id,
  kind: z.enum(databaseChangeKinds),
  state: z.enum(databaseChangeStates),
  copyId: z.string().nullable(),
  until: timestamp.nullable(),
  to: node.nullable(),
  from: node.nullable(),
  coveredAt: timestamp.nullable(),
  problem: z.string().nullable(),
  tries: count,
  blockedMs: count.nullable(),
  requestedBy: z.string(),
  createdAt: timestamp,
  stateAt: timestamp,
  endedAt: timestamp.nullable(),
});
export type DatabaseChange = z.output<typeof databaseChange>;

/** One database with all that is known of it. */
const adminDatabaseDetail = replyObject({
  id,
  projectId: id,
  projectSlug: z.string(),
  channel: z.enum(channels),
  engine: z.enum(databaseEngines),
  status: z.enum(databaseStatuses),
  reason: z.string().nullable(),
  node: node.nullable(),
  generation: count,
  sizeBytes: count.nullable(),
  volumeBytes: count.nullable(),
  /** The one that is wanted; null: none is. */
  server: replyObject({
    epoch: count,
    node: node.nullable(),
    image: z.string(),
    serving: z.boolean(),
    createdAt: timestamp,
  }).nullable(),
  volumes: z.array(
    replyObject({
      generation: count,
      node: node.nullable(),
      state: z.enum(["current", "salvage", "dropped"]),
      purgeAt: timestamp.nullable(),
      goneAt: timestamp.nullable(),
    }),
  ),
  /** `from`: any moment from then until `coveredAt` can be restored. */
  copies: z.array(
    replyObject({
      id,
      node: node.nullable(),
      purpose: z.enum(["keeper", "move", "successor"]),
      state: z.enum(["basing", "following", "broken", "ended"]),
      generation: count,
      problem: z.string().nullable(),
      from: timestamp.nullable(),
      coveredAt: timestamp.nullable(),
      bytes: count.nullable(),
      purgeAt: timestamp.nullable(),
    }),
  ),
  /** The newest first. */
  changes: z.array(databaseChange),
  proofs: z.array(
    replyObject({
      id,
      copyId: id,
      verdict: z.enum(["pending", "proven", "failed"]),
      problem: z.string().nullable(),
      coveredAt: timestamp.nullable(),
      tookMs: count.nullable(),
      createdAt: timestamp,
      endedAt: timestamp.nullable(),
    }),
  ),
});
export type AdminDatabaseDetail = z.output<typeof adminDatabaseDetail>;
export const adminDatabaseReply = success({ database: adminDatabaseDetail });

/**
 * `at`: to that moment; without it, all that a copy has. What was written after it is lost, and who asks says that they know
 * with `confirm`. `copyId` and `node` choose among copies. `volume`: instead of all that, the volume of that name, which the
 * database had before.
 */
export const restoreDatabaseInput = z
  .strictObject({
    at: moment.exactOptional(),
    copyId: z.guid().exactOptional(),
    node: z.guid().exactOptional(),
    volume: z.string().min(1).max(64).exactOptional(),
    confirm: z.boolean().exactOptional(),
  })
  .refine(
    ({ volume, at, copyId, node }) =>
      volume === undefined || (at === undefined && copyId === undefined && node === undefined),
    "A volume is taken as it is: send it without at, copyId and node.",
  );
export type RestoreDatabaseInput = z.output<typeof restoreDatabaseInput>;
/** `to`: the machine; without it the one that has a copy, or that suits best. */
export const moveDatabaseInput = z.strictObject({ to: z.guid().exactOptional() });
/** `node`: the machine that is to have it. */
export const fetchDatabaseInput = z.strictObject({ node: z.guid() });
/** The copy as it will be: without `coveredAt` of its own until all of it is there. */
export const fetchDatabaseReply = success({ copyId: id, coveredAt: timestamp });
/** `coveredAt`: nothing that was acknowledged before then is lost; null: nothing is at all. */
export const changeDatabaseReply = success({ change: databaseChange, coveredAt: timestamp.nullable() });
export const cancelDatabaseChangeReply = success({ change: databaseChange });
